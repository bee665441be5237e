"""Is the node's clock kept right?

Asked of the daemon that keeps it: chrony by its own command, systemd-timesyncd and ntpd by what the kernel knows. A
clock that is off makes evidence of different nodes hard to order, and MUNGE and TLS refuse each other. Where no such
daemon runs, as on many virtual machines whose host keeps the clock, nothing is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field

from wheeltapper.checks import calls, running
from wheeltapper.checks.growth import spell
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable, Probe, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

LOOSE = Fault("clock", "software/config", "nobody keeps the node's clock right")
OFF = Fault("clock", "software/config", "the node's clock is off")

CHRONY = ("chrony/chronyd.pid", "chrony/chronyd.sock", "chronyd.pid")
OTHERS = ("systemd/timesync", "ntpd.pid", "ntp.pid")
"""What a daemon leaves in ``/run`` while it runs."""

ASK_S = 5.0

OFFSET, LEAP = 4, 13
"""Fields of ``chronyc -c tracking``: the clock's offset in seconds, and whether it is kept (chronyc(1))."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Whether *daemon* keeps the clock, and by how many seconds it is off."""

    daemon: str
    is_kept: bool
    offset_s: float


class Limits(Section):
    """When a clock counts as off."""

    offset_s: float = Field(
        0.05, gt=0, strict=False, description="Seconds by which it may be off (node_exporter's rules warn at 0.05)."
    )
    loose_s: float = Field(
        900.0, ge=0, strict=False, description="Seconds without anybody keeping it: after a start it takes minutes."
    )


def read(host: Host) -> Clock:
    """Return the state of the clock of *host*.

    Raises:
        NotApplicable: no daemon keeps it.
        OSError: the daemon or the kernel does not answer.
        ValueError: the daemon's answer cannot be read.
    """
    if any((host.run / place).exists() for place in CHRONY):
        chronyc = running.find(host, "chronyc")
        if chronyc is not None:
            return _chrony(running.run([str(chronyc), "-c", "-n", "tracking"], ASK_S))
    if any((host.run / place).exists() for place in OTHERS):
        is_kept, offset_s = calls.kernel_clock()
        return Clock("the kernel", is_kept, offset_s)
    raise NotApplicable("no daemon keeps the clock")


def _chrony(ran: running.Ran) -> Clock:
    words = ran.output.strip().split(",")
    if ran.code or len(words) <= LEAP:
        raise ValueError(f"chronyc answered: {ran.output.strip()[:200]}")
    return Clock("chronyd", words[LEAP] != "Not synchronised", float(words[OFFSET]))


def judge(readings: Sequence[Reading[Clock]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield a finding when nobody keeps the clock for long, or when it is off."""
    now = readings[-1]
    clock = now.value
    loose_s = spell(readings, lambda value: not value.is_kept)
    if loose_s is not None:
        if loose_s >= limits.loose_s:
            text = f"{clock.daemon} has not kept the clock right for {loose_s / 60:.0f} minutes"
            yield LOOSE.seen(host, now.at, text, detail=f"daemon={clock.daemon.removeprefix('the ')}")
    elif abs(clock.offset_s) > limits.offset_s:
        text = f"{clock.daemon} says that the clock is off by {clock.offset_s:.3f} s"
        yield OFF.seen(host, now.at, text, detail=f"offset={abs(clock.offset_s):.3f}s")


PROBE = Probe("clock", read, every_s=120.0, keep_s=1800.0, deadline_s=ASK_S + 1.0, may_hang=True)
CHECK = Check("clock", PROBE, judge, Limits)
