"""Who never came: the collectives of all ranks side by side.

A rank that waits for others is not to blame. From every waiting rank the way leads to those it waits for, and on to
those they wait for; where it ends stands the rank that waits for nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from wheeltapper.evidence import Evidence, Finding, Role, Source
from wheeltapper.inputs.model import Rule

SILENT = Rule(
    "recorder.silent", "network/nccl_timeout", "ranks wait in collectives that others did not finish", Role.SYMPTOM
)
MISMATCH = Rule("recorder.mismatch", "software/deadlock", "ranks called different collectives at the same turn")

ALIKE = frozenset(
    {"all_reduce", "_all_gather_base", "all_gather", "_reduce_scatter_base", "reduce_scatter", "all_to_all", "barrier"}
    | {"all_gather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced", "allreduce_coalesced"}
)
"""Collectives that nobody can finish before all have come: not so broadcast, reduce, gather and scatter."""

SAME_SIZES = frozenset({"all_reduce", "_all_gather_base", "_reduce_scatter_base", "broadcast", "barrier"})
"""Collectives whose sizes must be the same on all ranks."""

MISSING_MAX = 8
"""Ranks without a dump that are suspects; where more are missing, the dumps were not all collected."""


@dataclass(frozen=True, slots=True)
class Op:
    """One collective or one send or receive of a rank; ``peer`` is the rank at the other end."""

    group: str
    name: str
    sequence: int
    peer: int | None
    is_p2p: bool
    done: bool
    started: bool
    sizes: str


@dataclass(frozen=True)
class Dump:
    """What one rank recorded. ``groups`` are the members of each group, ``enqueued`` its last turn in each."""

    rank: int
    file: str
    groups: Mapping[str, tuple[int, ...]]
    ops: tuple[Op, ...]
    enqueued: Mapping[str, int]

    @cached_property
    def pending(self) -> tuple[Op, ...]:
        """What has not ended, the oldest first."""
        return tuple(op for op in self.ops if not op.done)

    @cached_property
    def turns(self) -> Mapping[str, int]:
        """The last turn that this rank took in each group."""
        last: dict[str, int] = dict(self.enqueued)
        for op in self.ops:
            if not op.is_p2p:
                last[op.group] = max(last.get(op.group, -1), op.sequence)
        return last

    @cached_property
    def behind(self) -> Mapping[str, int]:
        """The oldest turn of each group that has not ended on this rank."""
        oldest: dict[str, int] = {}
        for op in self.pending:
            if not op.is_p2p:
                oldest[op.group] = min(oldest.get(op.group, op.sequence), op.sequence)
        return oldest

    def has_ended(self, op: Op) -> bool:
        """True when this rank took the turn of the collective *op* and is through with it."""
        return self.turns.get(op.group, -1) >= op.sequence and self.behind.get(op.group, op.sequence + 1) > op.sequence


def judge(dumps: Sequence[Dump]) -> list[Finding]:
    """Return the ranks that the others waited for, and collectives that did not match."""
    by_rank = {each.rank: each for each in dumps}
    mismatched = _mismatched(by_rank)
    if mismatched:
        return mismatched
    stuck = {rank: reason for rank in sorted(by_rank) if (reason := _stuck_alone(by_rank[rank], by_rank))}
    absent = {rank for each in dumps for members in each.groups.values() for rank in members} - set(by_rank)
    known_absent = absent if len(absent) <= min(MISSING_MAX, len(by_rank)) else set()
    silent = dict(stuck)
    for rank in sorted(by_rank):
        for end in sorted(_ends(rank, by_rank, stuck, known_absent)):
            reason = "it left no dump" if end in known_absent else "it waited for nobody and never came"
            silent.setdefault(end, f"{reason}, while others waited for it")
    return [_finding(rank, reason, by_rank) for rank, reason in sorted(silent.items())]


def _finding(rank: int, reason: str, by_rank: Mapping[int, Dump]) -> Finding:
    file = (by_rank.get(rank) or by_rank[min(by_rank)]).file
    seen = Evidence(Source.JOB_LOG, f"rank {rank}: {reason}", rank=rank, file=file)
    return SILENT.of(seen, silent=str(rank), reason=reason)


def _stuck_alone(dump: Dump, by_rank: Mapping[int, Dump]) -> str | None:
    """Return why *dump*'s rank hangs by itself: others ended a collective that nobody ends alone, and it did not."""
    for op in dump.pending:
        if op.is_p2p or op.name not in ALIKE:
            continue
        through = [
            rank
            for rank in dump.groups.get(op.group, ())
            if rank != dump.rank and rank in by_rank and by_rank[rank].has_ended(op)
        ]
        if through:
            return f"its GPU did not end {op.name} {op.sequence} of group {op.group}, which rank {through[0]} ended"
    return None


def _ends(start: int, by_rank: Mapping[int, Dump], stuck: Mapping[int, str], absent: set[int]) -> set[int]:
    """Return where the way from *start* over who waits for whom ends; nowhere when it runs in a circle."""
    seen: set[int] = set()
    ends: set[int] = set()
    way = [start]
    while way:
        rank = way.pop()
        if rank in seen:
            continue
        seen.add(rank)
        if rank in stuck or rank in absent or (rank in by_rank and not by_rank[rank].pending):
            ends |= {rank} - {start}
        elif rank in by_rank:
            way += _awaited(by_rank[rank], by_rank, absent)
    return ends


def _awaited(dump: Dump, by_rank: Mapping[int, Dump], absent: set[int]) -> list[int]:
    """Return the ranks that the oldest pending operation of *dump* waits for."""
    op = dump.pending[0]
    if op.is_p2p:
        return [op.peer] if op.peer is not None else []
    others = [rank for rank in dump.groups.get(op.group, ()) if rank != dump.rank]
    not_come = [
        rank
        for rank in others
        if rank in absent or (rank in by_rank and by_rank[rank].turns.get(op.group, -1) < op.sequence)
    ]
    if not_come:
        return not_come
    return [rank for rank in others if rank in by_rank and _is_busy_before(by_rank[rank], op)]


def _is_busy_before(dump: Dump, op: Op) -> bool:
    """True when *dump*'s rank came to *op* and something older than it has not ended there."""
    return bool(dump.pending) and (dump.pending[0].group, dump.pending[0].sequence) != (op.group, op.sequence)


def _mismatched(by_rank: Mapping[int, Dump]) -> list[Finding]:
    """Return the ranks that called another collective, or one of another size, than most of their group."""
    turns: dict[tuple[str, int], dict[int, str]] = {}
    for rank, dump in by_rank.items():
        for op in dump.pending:
            if not op.is_p2p:
                sizes = f" {op.sizes}" if op.name in SAME_SIZES else ""
                turns.setdefault((op.group, op.sequence), {})[rank] = op.name + sizes
    for (group, sequence), called in sorted(turns.items(), key=lambda turn: (turn[0][0], turn[0][1])):
        kinds = Counter(called.values())
        if len(kinds) > 1:
            usual = kinds.most_common(1)[0][0]
            odd = [rank for rank in sorted(called) if called[rank] != usual][:MISSING_MAX]
            return [_odd(rank, called[rank], usual, f"{sequence} of group {group}", by_rank) for rank in odd]
    return []


def _odd(rank: int, called: str, usual: str, turn: str, by_rank: Mapping[int, Dump]) -> Finding:
    text = f"rank {rank} called {called} as collective {turn}, others {usual}"
    return MISMATCH.of(Evidence(Source.JOB_LOG, text, rank=rank, file=by_rank[rank].file), silent=str(rank))
