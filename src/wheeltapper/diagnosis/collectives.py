"""Did all ranks take part in the same collective? Different sizes or kinds at one sequence number are the program's."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from wheeltapper.diagnosis.together import inferred
from wheeltapper.evidence import Finding

WATCHDOG = "torch.watchdog"

Call = tuple[str, str, str]
"""The kind of a collective and its sizes, in and out."""

RANKS_SHOWN = 8


def with_mismatch(told: Sequence[Finding]) -> list[Finding]:
    """Return *told*, and a deadlock when ranks waited at one sequence number in different collectives.

    Point-to-point work and broadcasts differ between ranks by nature and are left out. Ranks of several groups may
    count alike, so the odd ones must be fewer than the others and must not form pairs of their own.
    """
    calls: dict[str, dict[int, tuple[Call, Finding]]] = defaultdict(dict)
    for each in told:
        fields, rank = each.fields, each.evidence.rank
        if each.signature != WATCHDOG or rank is None or "seq" not in fields or "in" not in fields:
            continue
        if fields["op"] in {"SEND", "RECV", "COALESCED"}:
            continue
        calls[fields["seq"]].setdefault(rank, ((fields["op"], fields["in"], fields["out"]), each))
    for by_rank in calls.values():
        odd = _odd(by_rank)
        if odd:
            ranks = ", ".join(str(rank) for rank in odd[:RANKS_SHOWN])
            first = by_rank[odd[0]][1]
            summary = f"rank {ranks} called another collective than the others at sequence number {first.fields['seq']}"
            return [*told, inferred("mismatch", "software/deadlock", summary, first)]
    return list(told)


def _odd(by_rank: dict[int, tuple[Call, Finding]]) -> list[int]:
    counted = Counter(call for call, _finding in by_rank.values())
    if len(counted) < 2:
        return []
    usual, times = counted.most_common(1)[0]
    odd = sorted(rank for rank, (call, _finding) in by_rank.items() if call != usual)
    return odd if 2 * len(odd) <= len(by_rank) and times > 1 else []
