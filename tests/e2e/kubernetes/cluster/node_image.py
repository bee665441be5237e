"""The root folder of a node image for kind, made of Debian packages, built programs and the files of kind's own module.

It does what kind's images/base/Dockerfile does, for this machine: cgroupfs as the cgroup driver, runc behind our wrapper,
and the images that kubeadm asks for in containerd's store already.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.kubernetes.cluster import debian
from tests.e2e.kubernetes.cluster.cache import FILES, Cache
from tests.e2e.kubernetes.cluster.errors import CommandFailed
from tests.e2e.kubernetes.cluster.golang import KUBERNETES
from tests.e2e.kubernetes.cluster.images import PAUSE_IMAGE

NODE_IMAGE = "localhost/node:ours"

DOCKER_CHANGES = (
    "ENV container=docker",
    'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]',
)
"""How a node's container starts."""

_PACKAGES = (
    "systemd", "dbus", "bash", "ca-certificates", "conntrack", "containerd", "containernetworking-plugins", "curl", "ethtool",
    "hostname", "iproute2", "iptables", "jq", "kmod", "libseccomp2", "mount", "nftables", "pigz", "procps", "runc", "socat",
    "util-linux",
)  # fmt: skip

_USELESS_UNITS = (
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    "lib/systemd/system/multi-user.target.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "lib/systemd/system/basic.target.wants/*",
    "etc/systemd/system/*.wants/*",
)

_SET_UP = """
set -e
ln -sf /lib/systemd/systemd /sbin/init
systemctl --quiet enable kubelet.service containerd.service undo-mount-hacks.service
systemctl --quiet mask systemd-binfmt.service
ctr oci spec |
    jq '.hooks.createContainer += [{path: "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' >/etc/containerd/cri-base.json
"""

# A containerd of the node's own, in namespaces that end with this script, unpacks the images.
_IMPORT = """
set -e
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
containerd >/run/log 2>&1 &
left=200
until ctr version >/dev/null 2>&1; do
    left=$((left - 1))
    [ $left -gt 0 ] || { cat /run/log >&2; exit 1; }
    sleep 0.1
done
ctr --namespace=k8s.io images import /mnt/images.tar >/dev/null
# Layers have been unpacked; packed they are of no more use, and each node would get a copy. All else is smaller.
find /var/lib/containerd/io.containerd.content.v1.content/blobs -type f -size +64k -printf '%f\\n' |
    sed 's/^/sha256:/' | xargs ctr --namespace=k8s.io content rm >/dev/null
kill $!
wait $! || true
"""


def make_packages(root: Path) -> None:
    """Make *root* a Debian with what a node needs of it."""
    debian.bootstrap(root, _PACKAGES)


def make_node(cache: Cache, root: Path, archive: Path) -> None:
    """Make a node of *root*, which has the packages, with the images of *archive* in it."""
    _add_files(cache, root)
    for pattern in _USELESS_UNITS:
        for unit in root.glob(pattern):
            unit.unlink()
    _in(root, "/bin/bash", "-c", _SET_UP)
    _write_settings(root)
    inside = root / "mnt" / "images.tar"
    inside.hardlink_to(archive)
    try:
        _in(root, "/bin/bash", "-c", _IMPORT, before=("unshare", "--mount", "--pid", "--fork", "--kill-child"))
    finally:
        inside.unlink()


def _add_files(cache: Cache, root: Path) -> None:
    shutil.copytree(cache.kind_files, root, dirs_exist_ok=True)
    for folder in ("usr/local/bin", "kind/bin"):
        for script in (root / folder).iterdir():
            script.chmod(0o755)
    for name in ("kubeadm", "kubelet", "kubectl", "crictl"):
        shutil.copy(cache.bin / name, root / "usr/bin" / name)
    # kind's units and its runc look for these under /usr/local.
    for name in ("containerd", "ctr"):
        (root / "usr/local/bin" / name).symlink_to(f"/usr/bin/{name}")
    (root / "usr/local/sbin").mkdir(exist_ok=True)
    shutil.copy(FILES / "runc", root / "usr/local/sbin/runc")
    (root / "opt/cni").mkdir(parents=True)
    (root / "opt/cni/bin").symlink_to("/usr/lib/cni")
    (root / "etc/kubernetes/manifests").mkdir(parents=True)


def _write_settings(root: Path) -> None:
    with (root / "etc/systemd/journald.conf").open("a") as journald:
        journald.write("ReadKMsg=no\n")
    config = root / "etc/containerd/config.toml"
    text = config.read_text()
    text = text.replace("SystemdCgroup = true", "SystemdCgroup = false")
    # Raising the score of what the kernel may kill needs no right; lowering it does, and runc gives up without.
    text = text.replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true")
    text = re.sub(r"sandbox_image = \".*\"", f'sandbox_image = "{PAUSE_IMAGE}"', text)
    config.write_text(text)
    (root / "kind/version").write_text(f"{KUBERNETES}\n")
    (root / "kind/manifests").mkdir()
    # kind installs these two; pods get their network from us, and storage classes are not needed.
    for part in ("cni", "storage"):
        (root / f"kind/manifests/default-{part}.yaml").write_text(
            f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: no-default-{part}, namespace: kube-system}}\n"
        )


def _in(root: Path, *argv: str, before: Sequence[str] = ()) -> None:
    command = (*before, "chroot", str(root), *argv)
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise CommandFailed(command, ended)
