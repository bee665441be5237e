"""Did host memory have an error that nothing could correct?

The memory controller's own count since boot; one such error means that data was lost or a process was killed, and the
module that had it will do so again. It convicts until the next boot, or until somebody who has looked at the module
resets the counter (`reset_counters` in sysfs). Where a name of the module is known, it is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wheeltapper.checks.host.edac import PROBE, Controller
from wheeltapper.checks.model import Check, Fault, Host, NoLimits, Reading
from wheeltapper.evidence import Finding
from wheeltapper.inputs.judging.counters import MEMORY

BROKEN = Fault("edac_uncorrected", MEMORY.label, MEMORY.summary, MEMORY.disposition)


def judge(readings: Sequence[Reading[Mapping[str, Controller]]], host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield each controller that counted an uncorrected error."""
    now = readings[-1]
    for name, each in now.value.items():
        if each.uncorrected:
            where = f": {', '.join(each.modules)}" if each.modules else ""
            text = f"memory controller {name} counted {each.uncorrected} uncorrected errors since boot{where}"
            yield BROKEN.seen(host, now.at, text, detail=f"device={name} ue={each.uncorrected}", device=name)


CHECK = Check("edac_uncorrected", PROBE, judge)
