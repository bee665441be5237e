"""What a demo has planted, and whether the report afterwards says the same: kinds, counts and times."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Ask = Callable[..., str]
"""Wheeltapper's own command on the machine that has the record: words to what it prints."""


@dataclass(frozen=True, slots=True)
class Planted:
    """One interruption: the job, the label that it should get, and between which Unix seconds it was planted and seen."""

    job: str
    label: str
    after: float
    before: float
    taken_out: str | None = None


@dataclass(slots=True)
class Plan:
    """All that was planted, in order."""

    planted: list[Planted] = field(default_factory=list)

    def add(self, job: str, label: str, after: float, before: float, taken_out: str | None = None) -> None:
        """Remember one more; *taken_out* is the node that was drained for it."""
        self.planted.append(Planted(job, label, after, before, taken_out))

    def differences(self, ask: Ask) -> list[str]:
        """Return each place at which the report says something else, as a sentence; none when it says the same."""
        report = json.loads(ask("report", "--json"))
        wanted = Counter(each.label for each in self.planted)
        told = {kind["label"]: kind["count"] for kind in report["kinds"]}
        found = [f"planted were {dict(wanted)} and reported {told}"] if told != dict(wanted) else []
        for each in self.planted:
            attempts = json.loads(ask("explain", each.job, "--json"))
            ends = [told["attempt"]["end"] for told in attempts if told["diagnosis"]["label"] == each.label]
            if not any(each.after - 1 <= end <= each.before + 1 for end in ends):
                span = f"{each.after:.0f} to {each.before:.0f}"
                found.append(f"{each.label} of job {each.job} was planted in {span}, and ended at {ends}")
        return found + self._of_nodes(report)

    def _of_nodes(self, report: dict[str, Any]) -> list[str]:
        out = [(each["node"], each["label"], each["at"]) for each in report["quarantines"] if each["outcome"] == "done"]
        wanted = [each for each in self.planted if each.taken_out is not None]
        found = [f"{len(wanted)} nodes were broken, and {len(out)} taken out"] if len(out) != len(wanted) else []
        missing = [
            each
            for each in wanted
            if not any(
                (node, label) == (each.taken_out, each.label) and each.after - 1 <= at <= each.before + 1
                for node, label, at in out
            )
        ]
        return [*found, *(f"{each.taken_out} was broken by {each.label}, and taken out were {out}" for each in missing)]
