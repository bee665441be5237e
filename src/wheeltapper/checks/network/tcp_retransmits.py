"""Does the node send much of its TCP traffic again?

By the kernel's own counts over the last quarter of an hour. A few in a thousand are normal; one in twenty means that
packets are lost on the way: a bad link, a full switch, or peers that have gone away. Storage, rendezvous and gradients
over sockets all suffer from it. A warning, never a conviction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper.checks.growth import grown
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable, Probe, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

LOSSY = Fault("tcp_retransmits", "network/congestion", "much TCP traffic is sent again")


class Limits(Section):
    """When a node loses too much."""

    percent: float = Field(
        5.0,
        gt=0,
        le=100,
        strict=False,
        description="Percent of the segments sent that were sent again. Ours: no public checker of GPU nodes has one.",
    )
    segments_min: int = Field(
        100_000,
        ge=1,
        description="Segments sent below which no percentage is taken: an idle node's are a handful. Ours.",
    )


def read(host: Host) -> Mapping[str, int]:
    """Return TCP's counters of *host*, by the kernel's names.

    Raises:
        NotApplicable: this kernel has none.
        OSError: they cannot be read.
        ValueError: they are not what a kernel writes.
    """
    try:
        told = (host.procfs / "net/snmp").read_text(encoding="ascii").splitlines()
    except FileNotFoundError as error:
        raise NotApplicable("this kernel counts no TCP traffic") from error
    rows = [line.split()[1:] for line in told if line.startswith("Tcp:")]
    if len(rows) != 2:
        raise ValueError("/proc/net/snmp does not tell of TCP")
    counted = dict(zip(*rows, strict=True))
    return {name: int(counted[name]) for name in ("OutSegs", "RetransSegs") if name in counted}


def judge(readings: Sequence[Reading[Mapping[str, int]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield a finding when too much was sent again."""
    now = readings[-1]
    deltas = {each.name: each for each in grown(readings, lambda value: {"tcp": value})}
    if "OutSegs" not in deltas or "RetransSegs" not in deltas:
        return
    sent, again = deltas["OutSegs"].delta, deltas["RetransSegs"].delta
    if sent >= limits.segments_min and 100 * again > limits.percent * sent:
        minutes = deltas["OutSegs"].seconds / 60
        text = f"{again} TCP segments were sent again in {minutes:.0f} minutes, beside {sent} that were sent"
        yield LOSSY.seen(host, now.at, text, detail=f"retransmitted={100 * again / sent:.0f}%")


PROBE = Probe("tcp", read, keep_s=900.0)
CHECK = Check("tcp_retransmits", PROBE, judge, Limits)
