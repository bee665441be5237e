"""Does each NVMe drive answer?

The state that the kernel keeps of each controller. A drive on PCIe that the kernel has given up (`dead`) convicts: what
lay on it is out of reach. One that is being reset or set up again for minutes is told as a warning, and so is one that
is reached over a network, where the fault may lie anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pydantic import Field

from wheeltapper.checks.files import entries, text
from wheeltapper.checks.growth import spell
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable, Probe, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Disposition, Finding

DEAD = Fault("nvme_state", "hardware/storage", "an NVMe drive does not answer", Disposition.INSPECT)
UNREADY = Fault("nvme_state", "hardware/storage", "an NVMe drive is not ready")
REMOTE = Fault("nvme_state", "network/remote_storage", "an NVMe drive across the network does not answer")

FINE = {"live", "new"}
"""A controller that was only just found is ``new``."""


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller's state, and how it is reached: ``pcie``, ``tcp``, ``rdma`` or ``fc``."""

    state: str
    transport: str


class Limits(Section):
    """How long a controller may take to come back."""

    unready_s: float = Field(
        120.0,
        gt=0,
        strict=False,
        description="Seconds in another state than live: twice the kernel's own time limit for a reset.",
    )


def read(host: Host) -> Mapping[str, Controller]:
    """Return the NVMe controllers of *host*, by name.

    Raises:
        NotApplicable: it has none.
        OSError: sysfs cannot list them.
        ValueError: a controller does not tell its state.
    """
    found = {}
    for folder in entries(host.sysfs / "class/nvme"):
        state = text(folder / "state")
        if not state:
            raise ValueError(f"{folder} does not tell its state")
        found[folder.name] = Controller(state, text(folder / "transport") or "pcie")
    if not found:
        raise NotApplicable("there is no NVMe drive")
    return found


def judge(readings: Sequence[Reading[Mapping[str, Controller]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each controller that is dead, or not ready for too long."""
    now = readings[-1]
    for name, each in now.value.items():
        is_local = each.transport == "pcie"
        detail = f"device={name} state={each.state}"
        if each.state == "dead":
            fault = DEAD if is_local else REMOTE
            yield fault.seen(host, now.at, f"the kernel has given up {name}", detail=detail, device=name)
        elif each.state not in FINE:
            seconds = spell(readings, partial(_is_unready, name))
            if seconds is not None and seconds >= limits.unready_s:
                fault = UNREADY if is_local else REMOTE
                text = f"{name} has been {each.state} for {seconds:.0f} s"
                yield fault.seen(host, now.at, text, detail=detail, device=name)


def _is_unready(name: str, value: Mapping[str, Controller]) -> bool:
    return name in value and value[name].state not in FINE


PROBE = Probe("nvme", read, keep_s=600.0)
CHECK = Check("nvme_state", PROBE, judge, Limits)
