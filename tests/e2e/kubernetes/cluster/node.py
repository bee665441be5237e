"""One node of a cluster: a container, and a folder of its own that tests write to and pods can mount."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.kubernetes.cluster.docker import Docker

MACHINE = "/machine"
"""Where a node's own folder lies inside the node: what a chart mounts in place of the machine's real files."""

PCI_ADDRESSES = (
    "0000:3b:00",
    "0000:86:00",
    "0000:af:00",
    "0000:d8:00",
    "0000:18:00",
    "0000:5e:00",
    "0000:9a:00",
    "0000:c1:00",
)
"""Where the GPUs of every node sit, in their order."""

XID_TEXTS = {
    48: "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at physical address 0x0.",
    79: "GPU has fallen off the bus.",
}
"""The driver's words for the codes that tests use most."""


@dataclass(slots=True)
class Node:
    """One node of a running cluster. ``folder`` is ``/machine`` inside it."""

    name: str
    folder: Path
    docker: Docker
    _sequence: int = field(default=0, init=False)

    @property
    def kmsg(self) -> Path:
        """The node's kernel log, in the form of /dev/kmsg."""
        return self.folder / "kmsg"

    @property
    def nvml(self) -> Path:
        """A folder for what the node's NVML shall say."""
        return self.folder / "nvml"

    @property
    def gpus(self) -> list[str]:
        """The ids of the node's GPUs, as the kubelet knows them, the unhealthy ones too."""
        return [line.split()[0] for line in self._gpus.read_text().splitlines()]

    @property
    def _gpus(self) -> Path:
        return self.folder / "gpus"

    def create(self, gpus: int) -> None:
        """Make the folder of a freshly booted node with *gpus* GPUs."""
        self.nvml.mkdir(parents=True)
        self.kmsg.touch()
        self.set_gpus({f"GPU-{self.name}-{number}": True for number in range(gpus)})

    def set_gpus(self, healthy: dict[str, bool]) -> None:
        """Let the device plugin tell the kubelet of these GPUs, and which are healthy; it does within a second."""
        lines = [f"{name}\n" if well else f"{name} unhealthy\n" for name, well in healthy.items()]
        # Written whole or not at all: the plugin may be reading.
        new = self.folder / ".gpus"
        new.write_text("".join(lines))
        new.rename(self._gpus)

    def log_kernel(self, text: str, *, facility: int = 0, level: int = 3) -> int:
        """Append one record to the node's kernel log and return its sequence number.

        Facility 0 is the kernel, 1 a user's program; level 3 is an error (Linux, Documentation/ABI/testing/dev-kmsg).
        """
        sequence = self._sequence
        self._sequence += 1
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        with self.kmsg.open("a") as log:
            log.write(f"{facility * 8 + level},{sequence},{microseconds},-;{text}\n")
        return sequence

    def xid(self, code: int, pci: str = PCI_ADDRESSES[0], text: str | None = None) -> int:
        """Let the NVIDIA driver report Xid *code* for the GPU at *pci*, in the driver's own form."""
        words = XID_TEXTS.get(code, "an error of this kind was seen.") if text is None else text
        return self.log_kernel(f"NVRM: Xid (PCI:{pci}): {code}, pid='<unknown>', name=<unknown>, {words}")

    def run(self, *argv: str, check: bool = True) -> str:
        """Run a command on the node and return what it printed."""
        return self.docker.call("exec", self.name, *argv, check=check)

    def stop_kubelet(self) -> None:
        """End the kubelet; its pods run on, and the node becomes NotReady after a while."""
        self.run("systemctl", "stop", "kubelet")

    def start_kubelet(self) -> None:
        self.run("systemctl", "start", "kubelet")
