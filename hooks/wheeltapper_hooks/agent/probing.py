"""One probe on this node: read in its turn, never twice at once, and judged by every check that shares it."""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from wheeltapper.checks.model import Context, Host, NotApplicable, Reading
from wheeltapper.checks.outcome import Outcome, concluded
from wheeltapper.checks.registry import Chosen
from wheeltapper.evidence import Finding
from wheeltapper_hooks.agent.processes import LeftBehind, in_child, is_left_behind
from wheeltapper_hooks.agent.standing import Change, compared
from wheeltapper_hooks.agent.tally import Tally

log = logging.getLogger(__name__)

T = TypeVar("T")

NOT_YET = "it was not read yet"
A_JOB_IS_HERE = "it is judged only while no job is on the node"


class ProbeRun:
    """A probe with its checks, what it read, and what stands.

    All times are of the monotonic clock, so that a clock that is set makes no rate and no schedule wrong.
    """

    def __init__(
        self, judges: Sequence[Chosen], host: Host, tally: Tally, is_idle: Callable[[], bool] = lambda: True
    ) -> None:
        """Begin with nothing read; *judges* share one probe, and *is_idle* says whether the node has no job."""
        self.judges = tuple(judges)
        self.probe = judges[0].check.probe
        self.standing: dict[str, tuple[Finding, ...]] = {}
        self.read_at: float | None = None
        self.tried_at: float | None = None
        self.trouble = NOT_YET
        self.hurry = asyncio.Event()
        self.contexts = frozenset[Context]().union(*(each.check.contexts for each in judges))
        self._host = host
        self._tally = tally
        self._is_idle = is_idle
        self._readings: list[tuple[float, Callable[[], Any]]] = []
        self._absent = ""
        self._troubles: dict[str, str] = {}
        self._missing: dict[str, str] = {}
        self._restored: set[str] = set()
        self._stuck: int | None = None
        self._turn = asyncio.Lock()

    def restore(self, standing: Mapping[str, Sequence[Finding]]) -> None:
        """Take over what stood before a restart, by the check's name: it stands until the check could look again."""
        for each in self.judges:
            if found := standing.get(each.check.name):
                self.standing[each.check.name] = tuple(found)
                self._restored.add(each.check.name)

    def follow(self, before: ProbeRun) -> None:
        """Go on where *before*, the same probe under an older configuration, was; it is due for a look at once."""
        self.restore(before.standing)
        self._stuck = before._stuck
        if self.probe == before.probe:  # else a site's file was loaded anew, and may read something else
            self._readings, self.read_at = before._readings, before.read_at
            self.trouble, self._absent = before.trouble, before._absent

    @property
    def asked_after_jobs(self) -> bool:
        """True when a check of ours waits for the end of jobs: it judges idle nodes, or has no period of its own."""
        return any(each.check.of_idle_nodes for each in self.judges) or (
            Context.POSTFLIGHT in self.contexts and Context.PERIODIC not in self.contexts
        )

    async def freshen(self, max_age_s: float) -> list[Change]:
        """Read unless that was tried within *max_age_s* seconds, and return what changed.

        Who comes while another reads waits for that reading.
        """
        async with self._turn:
            if self.tried_at is not None and time.monotonic() - self.tried_at < max_age_s:
                return []
            return await self._read()

    def give_up(self, within: float) -> None:
        """Say that who wanted to know has waited *within* seconds in vain."""
        if self.trouble == NOT_YET:
            self.trouble = f"it was not read within {within:g} s"

    def outcome(self, chosen: Chosen) -> Outcome:
        """Return what the check *chosen*, one of ours, says now."""
        name = chosen.check.name
        trouble = self.trouble or self._troubles.get(name, "")
        age_s = None if self.read_at is None else time.monotonic() - self.read_at
        absent = self._absent or self._missing.get(name, "")
        return concluded(name, self.standing.get(name, ()), absent=absent, trouble=trouble, age_s=age_s)

    def blindness(self) -> str:
        """Return why a check of ours that may convict could not look; empty when each could.

        A check that is asked only before or after a job need not have looked.
        """
        convicting = [
            each.check.name for each in self.judges if each.may_convict and Context.PERIODIC in each.check.contexts
        ]
        if self.trouble:
            return f"{self.probe.name} cannot be read ({self.trouble})" if convicting else ""
        return "; ".join(
            f"{name} cannot judge ({self._troubles[name]})" for name in convicting if name in self._troubles
        )

    async def _read(self) -> list[Change]:
        self.tried_at = time.monotonic()
        if self._stuck is not None and is_left_behind(self._stuck):
            self._go_blind(f"an earlier read hangs in process {self._stuck}, so no other is started")
            return []
        self._stuck = None
        self._tally.count(self.probe.name, "runs")
        try:
            value = await self._value()
        except NotApplicable as error:
            self._readings.clear()
            self._absent, self.trouble = str(error), ""
            self.read_at = time.monotonic()
            return [self._found(each, ()) for each in self.judges]
        except (OSError, ValueError) as error:
            self._fail(error)
            return []
        self._keep(value)
        return self._judge()

    async def _value(self) -> Any:
        if not self.probe.may_hang:
            return _asked(lambda: self.probe.read(self._host), self.probe.name)
        told = await in_child(self._in_child, self.probe.deadline_s)
        try:
            kind, value = pickle.loads(told)  # noqa: S301 - our own child's words
        except (pickle.UnpicklingError, EOFError) as error:
            raise ChildProcessError("the child ended in the middle of its answer") from error
        if kind == "absent":
            raise NotApplicable(value)
        if kind == "unreadable":
            raise ValueError(value)
        return value

    def _in_child(self) -> bytes:
        try:
            return pickle.dumps(("read", _asked(lambda: self.probe.read(self._host), self.probe.name)))
        except NotApplicable as error:
            return pickle.dumps(("absent", str(error)))
        except (OSError, ValueError) as error:
            return pickle.dumps(("unreadable", str(error)))

    def _fail(self, error: OSError | ValueError) -> None:
        self._tally.count(self.probe.name, "failed")
        if isinstance(error, TimeoutError):
            self._tally.count(self.probe.name, "hung")
        if isinstance(error, LeftBehind):
            self._stuck = error.pid
        self._go_blind(str(error))

    def _go_blind(self, why: str) -> None:
        if why != self.trouble:
            log.warning("The probe %s cannot be read: %s.", self.probe.name, why)
        self.trouble = why

    def _keep(self, value: Any) -> None:
        now = time.monotonic()
        if self.read_at is not None and self.trouble:
            log.info("The probe %s can be read again.", self.probe.name)
        self._absent = self.trouble = ""
        self.read_at = now
        self._readings = [each for each in self._readings if now - each[0] <= self.probe.keep_s]
        self._readings.append((now, _packed(value) if self.probe.keep_s else lambda: value))

    def _judge(self) -> list[Change]:
        # The distance between two readings is that of the monotonic clock, also where the wall clock was set.
        ahead = time.time() - time.monotonic()
        readings = [Reading(at + ahead, value()) for at, value in self._readings]
        changes = []
        idle = self._is_idle()
        for each in self.judges:
            name = each.check.name
            if each.check.of_idle_nodes and not idle:
                # What it said of the idle node goes on to stand: it may explain the job's end.
                if not self.standing.get(name):
                    self._missing[name] = A_JOB_IS_HERE
                continue
            self._missing.pop(name, None)
            try:
                found = self._judged(each, readings)
            except NotApplicable as error:
                self._missing[name] = str(error)
                found = ()
            except (OSError, ValueError) as error:
                if self._troubles.get(name) != str(error):
                    log.warning("The check %s cannot judge: %s.", name, error)
                self._troubles[name] = str(error)
                continue
            self._troubles.pop(name, None)
            changes.append(self._found(each, found))
        return changes

    def _judged(self, chosen: Chosen, readings: Sequence[Reading[Any]]) -> tuple[Finding, ...]:
        check = chosen.check
        return _asked(lambda: tuple(check.judge(readings, self._host, chosen.limits)), check.name)

    def _found(self, chosen: Chosen, found: tuple[Finding, ...]) -> Change:
        name = chosen.check.name
        change = compared(self.standing.get(name, ()), found)
        if name in self._restored and change.ended and self._sees_less():
            kept = (*change.standing, *change.ended)
            change = Change(kept, change.began)
        else:
            self._restored.discard(name)
        self.standing[name] = change.standing
        return change

    def _sees_less(self) -> bool:
        """True while the readings since a restart do not reach as far back as the check wants to look."""
        if not self._readings:
            return False
        return self._readings[-1][0] - self._readings[0][0] < self.probe.keep_s - 2 * self.probe.every_s


def _packed(value: Any) -> Callable[[], Any]:
    """Return what gives *value* back, in a sixth of its memory where it can be pickled: an hour of readings is kept."""
    try:
        return partial(pickle.loads, pickle.dumps(value))
    except (pickle.PicklingError, TypeError, AttributeError):
        return lambda: value


def _asked(work: Callable[[], T], name: str) -> T:
    """Return what somebody's check makes of *work*; whatever is wrong in it costs no more than its own answer.

    Raises:
        NotApplicable, OSError, ValueError: the thing cannot be read; or the check named *name* has a bug.
    """
    try:
        return work()
    except (NotApplicable, OSError, ValueError):
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {error} in {where.filename}:{where.lineno}"
        raise ValueError(f"{name} has a bug: {told}") from error
