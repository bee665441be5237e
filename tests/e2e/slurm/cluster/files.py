"""The folders of the controller and of each node, and where each part lies in their own mount namespaces."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.slurm.cluster.namespaces import Place

PCI_ADDRESSES = ("0000:3b:00", "0000:86:00", "0000:af:00", "0000:d8:00", "0000:18:00", "0000:5e:00")
"""The GPUs of every node, in the scheduler's index order."""

# Parts of the machine's own sysfs that a node keeps: Slurm, hwloc and Python count CPUs in them.
_KEPT_SYSFS = ("devices/system/cpu", "devices/system/node", "fs/cgroup")

# What the driver-free witness of an H100 shows (PCI ids: vendor 10de is NVIDIA, class 0302 a 3D controller).
_PCI_FILES = {
    "vendor": "0x10de",
    "class": "0x030200",
    "device": "0x2330",
    "numa_node": "0",
    "current_link_speed": "32.0 GT/s PCIe",
    "max_link_speed": "32.0 GT/s PCIe",
    "current_link_width": "16",
    "max_link_width": "16",
}


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """A node's folder. Each part lies at its real path in the node's own mount namespace."""

    folder: Path

    @property
    def run(self) -> Path:
        """/run/wheeltapper: verdict, socket, job markers."""
        return self.folder / "run"

    @property
    def lib(self) -> Path:
        """/var/lib/wheeltapper."""
        return self.folder / "lib"

    @property
    def etc(self) -> Path:
        """/etc/wheeltapper: configuration and this node's key."""
        return self.folder / "etc"

    @property
    def kmsg(self) -> Path:
        """/dev/kmsg: here a plain file."""
        return self.folder / "kmsg"

    @property
    def sysfs(self) -> Path:
        """/sys: what a test puts here is all the hardware that the node shows, its CPUs excepted."""
        return self.folder / "sys"

    @property
    def boot_id(self) -> Path:
        """/proc/sys/kernel/random/boot_id."""
        return self.folder / "boot_id"

    def create(self, gpus: int) -> None:
        """Make a freshly booted node with *gpus* GPUs."""
        for folder in (self.run, self.lib, self.etc, self.folder / "spool", self.sysfs / "bus/pci/devices"):
            folder.mkdir(parents=True, exist_ok=True)
        for kept in _KEPT_SYSFS:
            (self.sysfs / kept).mkdir(parents=True, exist_ok=True)
        self.kmsg.touch()
        self.boot_id.write_text(f"{uuid.uuid4()}\n")
        for address in PCI_ADDRESSES[:gpus]:
            self.add_gpu(address)

    def gpu(self, address: str) -> Path:
        """The sysfs folder of the GPU at *address* (``0000:3b:00``)."""
        return self.sysfs / "bus/pci/devices" / f"{address}.0"

    def add_gpu(self, address: str) -> None:
        self.gpu(address).mkdir(parents=True, exist_ok=True)
        for name, text in _PCI_FILES.items():
            (self.gpu(address) / name).write_text(f"{text}\n")

    @property
    def place(self) -> Place:
        """What the node's programs see."""
        kept = [(Path("/sys") / part, self.sysfs / part) for part in _KEPT_SYSFS if (Path("/sys") / part).exists()]
        own = [
            (self.sysfs, Path("/sys")),
            (self.run, Path("/run/wheeltapper")),
            (self.lib, Path("/var/lib/wheeltapper")),
            (self.etc, Path("/etc/wheeltapper")),
            (self.kmsg, Path("/dev/kmsg")),
            (self.boot_id, Path("/proc/sys/kernel/random/boot_id")),
        ]
        return Place((*kept, *own))


@dataclass(frozen=True, slots=True)
class ControllerFiles:
    """The controller's folder; each part lies at its real path in the controller's own mount namespace."""

    folder: Path

    @property
    def etc(self) -> Path:
        """/etc/wheeltapper: configuration and the master key."""
        return self.folder / "etc"

    @property
    def ledger(self) -> Path:
        """The ledger, under the same path inside and outside."""
        return self.folder / "lib" / "ledger.db"

    @property
    def spool(self) -> Path:
        """/var/spool/wheeltapper: one file for each job that ended."""
        return self.folder / "spool"

    @property
    def place(self) -> Place:
        targets = {
            "etc": "/etc/wheeltapper",
            "lib": "/var/lib/wheeltapper",
            "spool": "/var/spool/wheeltapper",
            "run": "/run/wheeltapper",
        }
        return Place(tuple((self.folder / part, Path(target)) for part, target in targets.items()))

    def create(self) -> None:
        for source, _ in self.place.binds:
            source.mkdir(parents=True, exist_ok=True)


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that its owner alone can read."""
    path.touch(mode=0o600)
    path.write_bytes(content)
