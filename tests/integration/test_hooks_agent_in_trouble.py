"""The agent in trouble: stopped, dead, its disk full, its files damaged, its socket abused. No healthy job pays for it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.node import HOOKS, Node, until, uptime

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.mark.parametrize("hook", ["prolog", "epilog", "healthcheck"])
def test_a_stopped_agent_delays_a_hook_by_its_deadline_and_fails_none(node: Node, hook):
    node.start()
    node.signal(signal.SIGSTOP)
    node.verdict_file.unlink()
    began = time.monotonic()

    assert node.hook(hook).returncode == 0
    assert 1.9 < time.monotonic() - began < 3.5
    assert "the deadline is past" in node.hooks_log


def test_a_stopped_agent_does_not_acquit_a_lost_gpu(node: Node):
    node.start()
    node.signal(signal.SIGSTOP)
    node.verdict_file.unlink()
    node.lose_gpu()

    assert node.hook("prolog").returncode == 1
    assert "xid=79" in node.slurm.reason


def test_a_dead_agent_is_noticed_when_its_verdict_expires(node: Node):
    node.configure(agent={"verdict_valid_s": 1.0})
    node.start()
    node.stop(signal.SIGKILL)
    until(lambda: uptime() >= int(node.verdict_file.read_text().split()[2]), "the end of the verdict")

    assert node.hook("prolog").returncode == 0
    assert "the agent could not be asked" in node.hooks_log


@pytest.mark.parametrize(
    "talk", [b"", b"\n\n", b"nonsense\n\n", b"prolog\n", b"\xff\xfe\n\n", b"prolog\nx\n=\n==\n\n", b"a" * 400_000]
)
def test_nonsense_on_the_socket_harms_nobody(node: Node, talk):
    node.start()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(node.run_dir / "agent.sock"))
        try:
            connection.sendall(talk)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(100)
        except OSError:
            pass  # it hung up on us, as it may

    assert node.hook("healthcheck").returncode == 0
    assert node.hooks_log == ""
    assert "Traceback" not in node.log


def test_a_damaged_store_costs_the_memory_and_nothing_else(node: Node):
    node.state_dir.mkdir()
    (node.state_dir / "agent.db").write_bytes(b"this is no database, but long enough to look like one" * 100)
    node.start()
    node.convict()

    assert node.hook("prolog").returncode == 1
    assert "evidence is kept in memory only" in node.status()["trouble"]


def fill(folder: Path) -> None:
    """Use up the last byte of the file system that *folder* is."""
    with (folder / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(b"x" * 512)


@is_root
@pytest.mark.parametrize("full", ["state", "run"])
def test_a_full_disk_fails_no_healthy_job_and_hides_no_fault(node: Node, full):
    """A tmpfs of 256 KiB, filled to the brim once the agent runs."""
    folder = node.state_dir if full == "state" else node.run_dir
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        node.configure(agent={"verdict_valid_s": 0.6})
        node.start()
        fill(folder)
        assert node.hook("prolog").returncode == 0
        assert node.hook("epilog").returncode == 0
        assert node.hook("healthcheck").returncode == 0
        for number in range(40):  # more than the free rest of the file's last pages can take
            node.kernel(f"NVRM: Xid (PCI:0000:3b:00): 13, pid={number}, " + "Graphics Exception " * 20)
        node.lose_gpu()
        until(lambda: node.state != "ok", "the end of the verdict ok")
        assert node.hook("prolog").returncode == 1
        assert node.hook("healthcheck").returncode == 1
        said = node.log
        assert "evidence is kept in memory only" in said if full == "state" else "cannot be written" in said
        assert "Traceback" not in said
    finally:
        node.close()
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_nothing_keeps_an_epilogs_output_open(node: Node):
    node.start()
    node.hook("prolog")
    node.lose_gpu()
    (node.slurm.folder / "hang").touch()
    environment = {**node.environment, "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"}
    began = time.monotonic()
    with subprocess.Popen([str(HOOKS / "epilog")], env=environment, stdout=subprocess.PIPE) as stub:
        assert stub.stdout is not None
        stub.stdout.read()
        assert time.monotonic() - began < 4.0
        assert stub.wait() == 1
