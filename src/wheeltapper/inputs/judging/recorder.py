"""Who never came: the collectives of all ranks side by side.

A rank that waits for others is not to blame: of all that are waited for, those that wait for nobody are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    ranks = _Ranks(by_rank)
    silent = {rank: reason for rank in sorted(by_rank) if (reason := ranks.stuck_alone(rank))}
    for rank in sorted(set(by_rank) - set(silent)):
        for awaited in ranks.awaited_by(rank):
            if awaited in ranks.absent:
                silent.setdefault(awaited, "it left no dump, while others waited for it")
            elif not by_rank[awaited].pending:
                silent.setdefault(awaited, "it waited for nobody and never came, while others waited for it")
    return [_finding(rank, reason, by_rank) for rank, reason in sorted(silent.items())]


def _finding(rank: int, reason: str, by_rank: Mapping[int, Dump]) -> Finding:
    file = (by_rank.get(rank) or by_rank[min(by_rank)]).file
    seen = Evidence(Source.JOB_LOG, f"rank {rank}: {reason}", rank=rank, file=file)
    return SILENT.of(seen, silent=str(rank), reason=reason)


class _Ranks:
    """All ranks side by side. What is asked of a turn is worked out once: thousands of ranks wait in the same one."""

    def __init__(self, by_rank: Mapping[int, Dump]) -> None:
        self._by_rank = by_rank
        # A group has one name on all its ranks: of thousands of equal lists one is looked at.
        groups = {name: members for each in by_rank.values() for name, members in each.groups.items()}
        absent = {rank for members in groups.values() for rank in members} - set(by_rank)
        self.absent = absent if len(absent) <= min(MISSING_MAX, len(by_rank)) else set()
        self._awaited: dict[tuple[str, int], list[int]] = {}
        self._through: dict[tuple[str, int], int | None] = {}

    def stuck_alone(self, rank: int) -> str | None:
        """Return why *rank* hangs by itself: another rank ended a collective that nobody ends alone, and it did not."""
        dump = self._by_rank[rank]
        for op in dump.pending:
            if op.is_p2p or op.name not in ALIKE:
                continue
            key = op.group, op.sequence
            if key not in self._through:
                self._through[key] = next((each.rank for each in self._members(dump, op) if each.has_ended(op)), None)
            if self._through[key] is not None:
                return (
                    f"its GPU did not end {op.name} {op.sequence} of group {op.group}, "
                    f"which rank {self._through[key]} ended"
                )
        return None

    def awaited_by(self, rank: int) -> list[int]:
        """Return the ranks that the oldest pending operation of *rank* waits for."""
        dump = self._by_rank[rank]
        if not dump.pending:
            return []
        op = dump.pending[0]
        if op.is_p2p:
            return [op.peer] if op.peer in self._by_rank or op.peer in self.absent else []  # type: ignore[list-item]
        key = op.group, op.sequence
        if key not in self._awaited:
            self._awaited[key] = self._not_come(dump, op) or self._busy_before(dump, op)
        return self._awaited[key]

    def _members(self, dump: Dump, op: Op) -> Iterator[Dump]:
        return (self._by_rank[rank] for rank in dump.groups.get(op.group, ()) if rank in self._by_rank)

    def _not_come(self, dump: Dump, op: Op) -> list[int]:
        late = [each.rank for each in self._members(dump, op) if each.turns.get(op.group, -1) < op.sequence]
        return late + [rank for rank in dump.groups.get(op.group, ()) if rank in self.absent]

    def _busy_before(self, dump: Dump, op: Op) -> list[int]:
        """Return the ranks that came to *op* and have something older that has not ended."""
        return [
            each.rank
            for each in self._members(dump, op)
            if each.pending and (each.pending[0].group, each.pending[0].sequence) != (op.group, op.sequence)
        ]


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
