"""What the state of a GPU means, whoever has read it: `nvidia-smi` in a folder of evidence, or NVML on the node itself.

One truth for both: the words, labels and dispositions, and the thresholds with their sources.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wheeltapper.evidence import Disposition


class Meaning(NamedTuple):
    """What an observation says: its label, a summary, and what it asks for."""

    label: str
    summary: str
    disposition: Disposition = Disposition.NONE


LOST: Final = Meaning("hardware/gpu_lost", "the driver has lost a GPU", Disposition.REBOOT)
HOT: Final = Meaning("hardware/thermal", "heat slowed the GPU down", Disposition.INSPECT)
WARM: Final = Meaning("hardware/thermal", "a thermal slowdown was active while the GPU was not hot")
BRAKED: Final = Meaning("hardware/power", "the power brake slowed the GPU down", Disposition.INSPECT)
BRAKE: Final = Meaning("hardware/power", "the power brake was active")
NARROW: Final = Meaning("hardware/pcie", "the GPU's PCIe link lost lanes", Disposition.INSPECT)
SLOW: Final = Meaning("resource/pcie_bandwidth", "the GPU's PCIe link runs at a lower speed under load")
REMAP_FAILED: Final = Meaning("hardware/ecc_remap", "a row could not be remapped", Disposition.REPLACE)
REMAP_PENDING: Final = Meaning("hardware/ecc_remap", "a remapped row waits for a reset", Disposition.RESET_GPU)
UNCORRECTED: Final = Meaning("hardware/ecc_uncorrectable", "uncorrectable memory errors since the driver was loaded")
NVLINK: Final = Meaning("hardware/nvlink", "an NVLink gained errors during the job")

HOT_C: Final = 87
"""Degrees Celsius from which a data-centre GPU without a threshold of its own counts as hot (A100 and H100 slow down
between 85 and 92)."""

NEAR_C: Final = 3
"""Degrees below its own threshold at which a GPU counts as hot: a slowed one cools a little at once."""

BUSY_PERCENT: Final = 20
"""Utilisation from which a link shows what it can do: an idle one saves power at generation 1."""

SLOWED: Final = 0.5
"""Share of the highest clock below which a brake is felt."""

NVLINK_CRC_PER_HOUR: Final = 360_000
"""CRC errors of one NVLink in an hour that are too many: a hundred a second (NVIDIA DCGM, gpud)."""


def is_hot(
    degrees: float | None, *, slowdown_at: float | None, left: float | None, near: float = NEAR_C, hot: float = HOT_C
) -> bool:
    """True when a GPU of *degrees* Celsius is at its limit, or fewer than *near* degrees from it.

    Newer drivers say how many degrees are *left* to it, older ones at how many degrees the clocks are lowered; where
    neither is told, *hot* is the limit.
    """
    if left is not None:
        return left <= near
    return degrees is not None and degrees >= (slowdown_at - near if slowdown_at is not None else hot)


def is_slow(now: float | None, highest: float | None) -> bool:
    """True when a clock is so far below the highest that a brake is felt."""
    return now is not None and highest is not None and now < SLOWED * highest
