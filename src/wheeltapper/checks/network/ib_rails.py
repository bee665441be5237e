"""Is one port slower than those beside it?

A node of several rails moves data as fast as its slowest. Ports of the same model of adapter are held against each
other: where most run at one rate and one runs below it, that one trained badly. A warning, never a conviction. What is
slow on purpose, as an adapter for storage of another model, is not compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from wheeltapper.checks.model import Check, Fault, Host, NoLimits
from wheeltapper.checks.network.ports import PROBE, Port, Readings
from wheeltapper.evidence import Finding

ODD = Fault("ib_rails", "hardware/nic", "one rail is slower than the others")

RAILS_MIN = 3
"""With two ports, neither is the odd one."""


def judge(readings: Readings, host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield each port that runs below the rate at which most ports of its model run."""
    now = readings[-1]
    rails: dict[str, list[Port]] = defaultdict(list)
    for port in now.value.values():
        if port.is_active and port.gbps:
            rails[port.kind].append(port)
    for alike in rails.values():
        usual, count = Counter(port.gbps for port in alike).most_common(1)[0]
        if len(alike) < RAILS_MIN or 2 * count <= len(alike):
            continue
        for port in alike:
            if port.gbps < usual:
                text = f"port {port.name} runs at {port.gbps:g} Gbit/s, and {count} ports like it at {usual:g}"
                yield ODD.seen(host, now.at, text, detail=f"device={port.name} gbps={port.gbps:g}", device=port.name)


CHECK = Check("ib_rails", PROBE, judge)
