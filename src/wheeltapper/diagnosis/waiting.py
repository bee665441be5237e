"""Did the others only wait for the one that was still preparing the data?"""

from __future__ import annotations

from collections.abc import Sequence

from wheeltapper.diagnosis.together import inferred
from wheeltapper.evidence import Finding

PREPARING = "data.preparing"
WATCHDOG = "torch.watchdog"

FIRST_COLLECTIVES = 10
"""Sequence numbers that come before training: later ones wait for something else than the data set."""


def with_unfinished_data(told: Sequence[Finding]) -> list[Finding]:
    """Return *told*, and the preparation of data as the cause where it had not ended.

    That is when a bar stood short of its end while the very first collectives timed out.
    """
    early = [
        each
        for each in told
        if each.signature == WATCHDOG and int(each.fields.get("seq", FIRST_COLLECTIVES + 1)) <= FIRST_COLLECTIVES
    ]
    if not early:
        return list(told)
    bars = [each for each in told if each.signature == PREPARING]
    done = {_bar(each) for each in bars if each.fields["percent"] == "100"}
    unfinished = [each for each in bars if _bar(each) not in done]
    if not unfinished:
        return list(told)
    summary = "one rank was still preparing the data while the others waited for it"
    return [*told, inferred("waiting_for_data", "software/dataloader", summary, unfinished[0])]


def _bar(finding: Finding) -> tuple[str | None, str]:
    return finding.evidence.file, finding.fields["what"].strip()
