"""What NVML tells of a node's GPUs at one moment: plain frozen values, which travel between processes.

A GPU is named by its PCI address and UUID, never by its index: indices shift when one is lost. What a GPU did not tell
is None, and ``unread`` says by which NVML code: a call that is missing costs no other field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from wheeltapper.checks.model import NotApplicable, Reading

NOT_SUPPORTED = 3
FUNCTION_NOT_FOUND = 13
DRIVER_NOT_LOADED = 9
IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 18

UNSUPPORTED = frozenset({2, NOT_SUPPORTED, FUNCTION_NOT_FOUND, 22, 25, 26})
"""NVML's codes for "this GPU or driver has no such thing": invalid argument, not supported, function not found, virtual
GPU without ECC, version mismatch of an argument, deprecated."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Row remapping since the GPU was made: rows remapped for corrected and uncorrected errors, and two flags."""

    corrected: int
    uncorrected: int
    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages retired since the GPU was made, on GPUs before Ampere, and whether one waits for the driver's reload."""

    retired: int
    pending: bool


@dataclass(frozen=True, slots=True)
class Heat:
    """Degrees Celsius: of the GPU and its memory, at which clocks are lowered, and how many are left to that."""

    gpu_c: int
    memory_c: int | None = None
    slowdown_at_c: int | None = None
    memory_max_c: int | None = None
    left_c: int | None = None


@dataclass(frozen=True, slots=True)
class Clocks:
    """Why the clocks are where they are (NVML's bits), and the SM clock now and at most, in MHz."""

    reasons: int
    sm_mhz: int | None = None
    sm_max_mhz: int | None = None


@dataclass(frozen=True, slots=True)
class Pcie:
    """The PCIe link: lanes and generation, now and at most in this slot; replays since the driver's load."""

    width: int
    max_width: int
    generation: int
    max_generation: int
    replays: int | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """One NVLink, and its error counters since the driver's load. None: this generation of NVLink counts otherwise."""

    number: int
    is_up: bool
    recoveries: int | None = None
    crc_errors: int | None = None
    receive_errors: int | None = None


@dataclass(frozen=True, slots=True)
class Fabric:
    """How far the GPU came in joining the NVSwitch fabric, with which NVML status, and the fabric's health mask."""

    state: int
    status: int
    health: int


@dataclass(frozen=True, slots=True)
class Use:
    """Who is on the GPU: busy percent, memory in MB that is neither free nor reserved, and processes that compute."""

    busy_percent: int
    memory_mb: int
    pids: tuple[int, ...]

    @property
    def is_idle(self) -> bool:
        """True when nothing runs on the GPU."""
        return not self.pids and self.busy_percent == 0


@dataclass(frozen=True, slots=True)
class Mode:
    """A setting that changes only with a reset: as it is, and as it will be."""

    current: int
    pending: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. ``fault`` is the NVML code with which it refused to be read on: lost (15) or in need of a reset (16)."""

    address: str
    uuid: str | None = None
    name: str = ""
    fault: int | None = None
    recovery_action: int | None = None
    ecc_uncorrected: int | None = None
    ecc_corrected: int | None = None
    sram_exceeded: bool | None = None
    rows: Rows | None = None
    pages: Pages | None = None
    heat: Heat | None = None
    clocks: Clocks | None = None
    pcie: Pcie | None = None
    links: tuple[Link, ...] | None = None
    fabric: Fabric | None = None
    use: Use | None = None
    persistence: bool | None = None
    mig: Mode | None = None
    ecc_mode: Mode | None = None
    unread: Mapping[str, int] = field(default_factory=dict)

    @property
    def named(self) -> dict[str, Any]:
        """The GPU's names, for a finding's evidence."""
        return {"gpu": self.address, "gpu_uuid": self.uuid}

    @property
    def is_idle(self) -> bool:
        """True when it is known that nothing runs on the GPU."""
        return self.use is not None and self.use.is_idle

    @property
    def has_mig(self) -> bool:
        """True while the GPU is split into instances."""
        return self.mig is not None and self.mig.current == 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All GPUs at one moment.

    ``refused`` is the NVML code with which the driver did not serve at all: not loaded (9), or of another version than
    its library (18). ``on_pci`` are the GPUs that PCI shows, ``device_files`` how many ``/dev/nvidia0``… there are, and
    ``unopened`` the NVML codes of GPUs that could not be opened, and so have no address.
    """

    on_pci: tuple[str, ...]
    gpus: tuple[Gpu, ...] = ()
    refused: int | None = None
    device_files: int = 0
    unopened: tuple[int, ...] = ()

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The GPUs that PCI shows and NVML does not."""
        return tuple(each for each in self.on_pci if self.gpu(each) is None)

    def meant(self, count: int) -> str | None:
        """Return the address of the GPU that is meant by *count* answers without one, when it can be only this."""
        return self.unanswered[0] if len(self.unanswered) == count == 1 else None

    def having(self, name: str) -> tuple[Gpu, ...]:
        """Return the GPUs that told the field called *name*.

        Raises:
            NotApplicable: no GPU here has such a thing.
            ValueError: no GPU could be asked, or none that has it told it.
        """
        if not self.gpus:
            raise ValueError(f"NVML shows no GPU{'' if self.refused is None else f' (error {self.refused})'}")
        found = tuple(each for each in self.gpus if getattr(each, name) is not None)
        if found:
            return found
        codes = sorted({code for each in self.gpus if (code := each.unread.get(name)) is not None})
        if UNSUPPORTED.issuperset(codes) and all(each.fault is None for each in self.gpus):
            raise NotApplicable(f"no GPU here tells its {name.replace('_', ' ')}")
        raise ValueError(
            f"no GPU told its {name.replace('_', ' ')} (NVML error {', '.join(map(str, codes)) or 'unknown'})"
        )

    def gpu(self, address: str) -> Gpu | None:
        """Return the GPU at *address*."""
        return next((each for each in self.gpus if each.address == address), None)


Readings = Sequence[Reading[Snapshot]]


def before(readings: Readings, address: str, within_s: float) -> list[tuple[float, Gpu]]:
    """Return when and how the GPU at *address* was seen in the last *within_s* seconds, the newest last."""
    since = readings[-1].at - within_s
    seen = ((each.at, each.value.gpu(address)) for each in readings if each.at >= since)
    return [(at, gpu) for at, gpu in seen if gpu is not None]


def growth(values: Sequence[int]) -> int:
    """Return by how much a counter grew over *values*, the newest last. One below its predecessor began anew."""
    return sum(later - earlier if later >= earlier else later for earlier, later in pairwise(values))
