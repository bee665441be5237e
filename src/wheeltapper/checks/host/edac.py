"""Memory errors as the memory controllers count them since the driver was loaded: since boot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wheeltapper.checks.files import entries, number, text
from wheeltapper.checks.model import Host, NotApplicable, Probe


@dataclass(frozen=True, slots=True)
class Controller:
    """A memory controller: errors that nothing corrected, those that were corrected, and the modules that had any."""

    uncorrected: int
    corrected: int
    modules: tuple[str, ...]


def read(host: Host) -> Mapping[str, Controller]:
    """Return the memory controllers of *host* by name.

    Raises:
        NotApplicable: no driver counts memory errors here.
        ValueError: a controller does not tell its counts.
    """
    found = {}
    for folder in entries(host.sysfs / "devices/system/edac/mc"):
        if not folder.name.startswith("mc") or not folder.is_dir():
            continue
        uncorrected, corrected = number(folder / "ue_count"), number(folder / "ce_count")
        if uncorrected is None or corrected is None:
            raise ValueError(f"{folder} does not tell how many errors it counted")
        modules = []
        for module in (*sorted(folder.glob("dimm*")), *sorted(folder.glob("rank*"))):
            counts = number(module / "dimm_ue_count") or 0, number(module / "dimm_ce_count") or 0
            if any(counts):
                name = text(module / "dimm_label") or module.name
                modules.append(f"{name} ({counts[0]} uncorrected, {counts[1]} corrected)")
        found[folder.name] = Controller(uncorrected, corrected, tuple(modules))
    if not found:
        raise NotApplicable("no driver counts memory errors (EDAC)")
    return found


PROBE = Probe("edac", read, keep_s=3600.0)
