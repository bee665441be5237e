"""The node's verdict from what is known of this boot. Pure: nothing is read here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wheeltapper.checks.open_faults import NEW_AFTER_S, open_faults
from wheeltapper.checks.outcome import Outcome, Result, warns
from wheeltapper.evidence import Finding, Role, Source
from wheeltapper.recovery import ADVICE, PROBE
from wheeltapper.verdict import State

FORGIVEN = "a person put it back to work"


def settling_key(finding: Finding) -> str:
    """Return what a person's release settles: this very finding, and not the next that looks like it."""
    return f"{finding.key}:{finding.detail}"


def judge(findings: Iterable[Finding], settled: frozenset[str], blind: str) -> tuple[State, tuple[Finding, ...], str]:
    """Return the state that *findings*, all of this boot, put the node into, those that speak for it, and a note.

    ``fail`` with an open fault, ``unknown`` when *blind* says why we could not look, ``warn`` when a person has
    *settled* every open fault or a check has found something that convicts nobody, else ``ok``.
    """
    known = list(findings)
    faults = open_faults(known)
    unsettled = tuple(each for each in faults if settling_key(each) not in settled)
    if unsettled:
        return State.FAIL, unsettled, ""
    if blind:
        return State.UNKNOWN, (), blind
    warnings = tuple(each for each in known if each.evidence.source is Source.CHECK and warns(each))
    if faults:
        return State.WARN, (*faults, *warnings), FORGIVEN
    return (State.WARN, warnings, "") if warnings else (State.OK, (), "")


def forgiven(outcome: Outcome, settled: frozenset[str]) -> Outcome:
    """Return *outcome*, a warning when it fails on nothing but what a person has *settled*."""
    if outcome.result is not Result.FAIL:
        return outcome
    if any(each.convicts and settling_key(each) not in settled for each in outcome.findings):
        return outcome
    return replace(outcome, result=Result.WARN, reason=f"{FORGIVEN}: {outcome.reason}")


def still_telling(known: list[Finding]) -> list[Finding]:
    """Return those of *known*, in their order, that decide the verdict or may yet: with them it is and stays the same.

    What an application did on a GPU never will. Of a burst of faults, lines are let go whose neighbours are so near
    to each other that the burst stays one burst without them.
    """
    deciding = {(each.key, each.signature) for each in open_faults(known)}
    keep: list[bool] = [each.signature in {ADVICE, PROBE} or (each.key, each.signature) in deciding for each in known]
    bursts: dict[tuple[str, str], list[int]] = {}
    for number, each in enumerate(known):
        if each.role is Role.ROOT and each.label.startswith("hardware/"):
            bursts.setdefault((each.evidence.gpu or each.label, each.disposition), []).append(number)
    for numbers in bursts.values():
        kept_at: float | None = None
        for number, following in zip(numbers, [*numbers[1:], None], strict=True):
            at = known[number].evidence.at or 0.0
            until = known[following].evidence.at or 0.0 if following is not None else None
            if kept_at is None or until is None or until - kept_at > NEW_AFTER_S:
                keep[number] = True
                kept_at = at
    return [each for each, kept in zip(known, keep, strict=True) if kept]
