"""When a node that we took out may work again: one pure answer from what it was taken out for and how it is now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from wheeltapper.config import PolicySection
from wheeltapper.evidence import Disposition, Finding
from wheeltapper.ledger.model import Outcome, Quarantine
from wheeltapper.verdict import State
from wheeltapper.wire import Health

STRICTNESS: Final = (
    Disposition.NONE,
    Disposition.RESTART_APP,
    Disposition.RESET_GPU,
    Disposition.REBOOT,
    Disposition.INSPECT,
    Disposition.REPLACE,
)
"""From what a passing check settles to what only a person can."""

PASSING: Final = frozenset({State.OK, State.WARN})
"""The verdicts with which a prolog lets jobs in."""

HAPPENED: Final = frozenset({Outcome.DONE, Outcome.RELEASED, Outcome.UNDONE})
"""What became of a node in fact; the other outcomes only tell what would have."""


class Step(str, Enum):
    """What is done about a node that is out by our doing."""

    RELEASE = "release"
    REBOOT = "reboot"
    WAIT = "wait"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class Next:
    """The next step, and why, for the log."""

    step: Step
    why: str


def strictest(findings: Iterable[Finding]) -> Disposition:
    """Return the most that any of *findings* asks for before the node may work again."""
    return max((each.disposition for each in findings), key=STRICTNESS.index, default=Disposition.NONE)


def stricter(one: Disposition, other: Disposition) -> bool:
    """True when *one* asks for more than *other*."""
    return STRICTNESS.index(one) > STRICTNESS.index(other)


def standing(history: Iterable[Quarantine]) -> list[Quarantine]:
    """Return what the nodes in *history* are out for: the newest of each that nobody has put back since."""
    last = {each.node: each for each in history if each.outcome in HAPPENED}
    return [each for _, each in sorted(last.items()) if each.outcome is Outcome.DONE]


def settled(history: Iterable[Quarantine]) -> frozenset[str]:
    """Return the keys of findings on which the node of *history* was taken out and then put back by a person.

    What it stands out for counts as settled too: who asks finds it back in service. What we released ourselves is not
    settled: the fault was gone then, and may come back under the same key.
    """
    standing: set[str] = set()
    undone: set[str] = set()
    for each in history:
        if each.outcome is Outcome.DONE:
            standing.add(each.key)
        elif each.outcome is Outcome.RELEASED:
            standing.clear()
        elif each.outcome is Outcome.UNDONE:
            undone |= standing
            standing.clear()
    return frozenset(undone | standing)


def times_out(history: Sequence[Quarantine], at: float, policy: PolicySection) -> int:
    """Return how often the node of *history* was taken out within the configured days before *at* (Unix seconds)."""
    since = at - policy.release.repeat_days * 86_400
    return sum(1 for each in history if each.outcome is Outcome.DONE and each.first and since <= each.at <= at)


def repeats(times: int, policy: PolicySection) -> str:
    """Return the words that follow a reason when the node is taken out for the *times*-th time; mostly none."""
    if times < policy.release.repeat_quarantines:
        return ""
    return f"; out {times} times in {policy.release.repeat_days:g} days, a person decides"


def mended(findings: Iterable[Finding], boot_id: str, health: Health | None) -> bool:
    """True when the node was rebooted since the boot of *findings*, they ask for no more, and it passes its checks.

    A late report tells of a fault that may be gone by now.
    """
    return (
        health is not None
        and health.boot_id != boot_id
        and health.state in PASSING
        and not stricter(strictest(findings), Disposition.REBOOT)
    )


def next_step(out: Quarantine, times: int, health: Health | None, policy: PolicySection) -> Next:
    """Return what is to be done about a node that is *out* for the *times*-th time.

    *health* is what the node itself has said lately; None when it has said nothing.
    """
    if not policy.release.automatic:
        return Next(Step.PERSON, "nothing is released here but by a person")
    if times >= policy.release.repeat_quarantines:
        return Next(Step.PERSON, f"it was out {times} times in {policy.release.repeat_days:g} days, a person decides")
    if out.disposition not in {Disposition.RESET_GPU, Disposition.REBOOT}:
        return Next(Step.PERSON, f"its fault needs a person ({out.disposition.value})")
    if health is None:
        return Next(Step.WAIT, "its agent says nothing")
    if out.disposition is Disposition.REBOOT and health.boot_id == out.boot_id:
        wanted = Step.REBOOT if policy.reboot else Step.WAIT
        return Next(wanted, "it was not rebooted yet")
    if health.state not in PASSING:
        return Next(Step.WAIT, f"its verdict is {health.state.value}")
    if health.held_s < policy.release.hold_s:
        return Next(Step.WAIT, f"it must pass its checks for {policy.release.hold_s:g} s first")
    return Next(Step.RELEASE, f"it has passed its checks for {policy.release.hold_s:g} s")
