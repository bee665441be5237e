"""Looks after the jobs of one kind: gathers how an attempt ends, has it diagnosed, records it once, and sends it on."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from wheeltapper import codec
from wheeltapper import kubernetes_names as names
from wheeltapper.config import Mode
from wheeltapper.errors import SchedulerError
from wheeltapper.ledger.model import Interruption
from wheeltapper.policy import moving
from wheeltapper.policy.decide import decide
from wheeltapper.policy.model import JobAction
from wheeltapper_operator import gang, interruptions, judge, quarantine
from wheeltapper_operator.api import ApiError, path_of
from wheeltapper_operator.endings import Ending
from wheeltapper_operator.events import LIFE_S
from wheeltapper_operator.evidence import Evidence
from wheeltapper_operator.gang import Order, Past
from wheeltapper_operator.jobs import Job, Kind
from wheeltapper_operator.jobs import job as job_view
from wheeltapper_operator.jobwriter import JobWriter
from wheeltapper_operator.keeper import Keeper
from wheeltapper_operator.kueue import Kueue, Workload
from wheeltapper_operator.mover import Mover
from wheeltapper_operator.objects import NodeHealth
from wheeltapper_operator.parts import Parts
from wheeltapper_operator.podbook import PodBook
from wheeltapper_operator.pods import Pod
from wheeltapper_operator.pods import pod as pod_view
from wheeltapper_operator.reflector import Change, Reflector
from wheeltapper_operator.work import Queue

log = logging.getLogger(__name__)

MOVE_S = 1.0
"""How soon a job whose requeue is under way is looked at again."""


class JobKeeper:
    """The jobs of one kind, and their pods."""

    def __init__(self, parts: Parts, kind: Kind, nodes: Keeper, kueue: Kueue) -> None:
        self._parts = parts
        self._kind = kind
        self._nodes = nodes
        self._policy = parts.settings.policy
        self._leads = False
        self._endings: dict[str, Ending] = {}
        self._book = PodBook()
        self._evidence = Evidence(parts.api)
        self._queue = Queue(self._look)
        self.jobs = Reflector(parts.api, kind.path(), partial(job_view, kind=kind), self._hear_job)
        self.pods = Reflector(
            parts.api,
            path_of("v1", "pods"),
            partial(pod_view, label=kind.pod_label),
            self._hear_pod,
            {"labelSelector": kind.pod_label},
        )
        self._writer = JobWriter(parts, kind, self.jobs)
        self._kueue = kueue
        self._mover = Mover(parts, self._writer, nodes.nodes, kueue)
        nodes.listeners.append(self._hear_health)
        kueue.listeners.append(self._hear_workload)

    async def work(self) -> None:
        """Look at every job once, and from then on at each that something happens to; for ever, while we lead."""
        while not await self._take_over():  # noqa: ASYNC110 - a server that comes up tells nobody
            await asyncio.sleep(MOVE_S)
        self._leads = True
        self._catch_up()
        for job in self.jobs:
            self._queue.add(job.key)
        try:
            await self._queue.run()
        finally:
            self._leads = False

    def undecided(self) -> list[float]:
        """Return since when (Unix seconds) each attempt that is ending waits for its diagnosis."""
        return [each.began for each in self._endings.values()]

    def under_way(self) -> list[float]:
        """Return since when (Unix seconds) each gang that is to move could have moved."""
        orders = (gang.read_order(job) for job in self.jobs if job.order)
        return [order.not_before for order in orders if order is not None]

    async def _take_over(self) -> bool:
        """Order what another operator has decided and did not come to order; return False when that cannot be done."""
        try:
            await self._order_what_was_left()
        except SchedulerError as error:
            log.warning("What an operator before us has left cannot be seen yet: %s", error)
            return False
        return True

    async def _order_what_was_left(self) -> None:
        for item in (await self._parts.api.get(path_of(names.GROUP, "interruptions"))).get("items") or ():
            spec = item["spec"]
            found = self.jobs.get(f"{item['metadata']['namespace']}/{spec['job']}")
            if found is None or found.uid != spec["uid"]:
                continue
            job = self._kueue.seen(found)
            if (gang.number_of(job), job.order) == (spec["attempt"], ""):
                log.info("%s: attempt %d was decided by an operator that is gone", job.key, spec["attempt"])
                await self._order(job, codec.load(Interruption, spec["record"]))
            elif self._parts.clock() - spec["at"] < LIFE_S:
                self._say_again(job, spec["attempt"], codec.load(Interruption, spec["record"]))

    def _catch_up(self) -> None:
        """Take up what happened before we led, or was listed before the job that it is about."""
        for pod in self._book:
            if pod.ended_badly:
                self._take(pod.job_key, pod, is_all_news=True)
        for health in self._nodes.healths:
            self._take_fault(health, news_only=True)

    def _hear_health(self, change: Change[NodeHealth]) -> None:
        """Take up that a node's agent has something new to say: a job that runs there may have to move."""
        if change.new is not None:
            self._take_fault(change.new, news_only=False)

    def _take_fault(self, health: NodeHealth, *, news_only: bool) -> None:
        """Take up a fault of a node; *news_only* leaves out jobs that came after it, or were decided on since."""
        faults = [each.evidence.at or 0.0 for each in moving.faults(health.findings)]
        if not faults:
            return
        for key, there in self._book.running_on(health.name).items():
            job = self.jobs.get(key)
            if job is None or gang.read_order(job) is not None:
                continue
            known = max(gang.decided_at(job), min(pod.started for pod in there))
            if not news_only or max(faults) > known:
                self._begin(job).fault = health.name
                self._queue.add(key)

    def _hear_workload(self, of: Workload) -> None:
        if of.kind == self._kind.name:
            self._queue.add(f"{of.namespace}/{of.job}")

    def _hear_job(self, change: Change[Job]) -> None:
        ending, new = self._endings.get(change.key), change.new
        is_another = new is not None and change.old is not None and change.old.uid != new.uid
        if new is None or is_another or (ending and ending.attempt != gang.number_of(new)):
            self._endings.pop(change.key, None)
        if new is not None and new.suspended and not (change.old is not None and change.old.suspended):
            self._book.send_away(self._book.of(change.key))
        self._queue.add(change.key)

    def _hear_pod(self, change: Change[Pod]) -> None:
        pod = change.new or change.old
        if pod is None or not pod.job:
            return
        self._book.take(change)
        job = self.jobs.get(pod.job_key)
        if change.new is not None and pod.leaving and job is not None and job.suspended:
            self._book.send_away([pod])
        if pod.ended_badly and (change.old is None or change.old.record != pod.record):
            self._take(pod.job_key, pod)
        self._queue.add(pod.job_key)

    def _begin(self, job: Job) -> Ending:
        now = self._parts.clock()
        return self._endings.setdefault(job.key, Ending(gang.number_of(job), now, now))

    def _take(self, key: str, pod: Pod, *, is_all_news: bool = False) -> None:
        job = self.jobs.get(key)
        # While an order stands we take the attempt down ourselves, and what began before the last decision is its echo.
        if job is None or gang.read_order(job) is not None or pod.started <= gang.decided_at(job):
            return
        # Kueue resumes a job before the pods of the attempt that it has ended are gone: how they end is no news.
        if self._book.was_sent_away(pod):
            return
        ending = self._begin(job)
        is_news = is_all_news or pod.uid not in ending.records
        ending.take(pod, self._parts.clock())
        if is_news and self._leads:
            self._evidence.fetch(ending, pod, partial(self._queue.add, key))

    async def _look(self, key: str) -> float | None:
        """Do what is to be done about the job *key*; return in how many seconds it must be looked at again."""
        found = self.jobs.get(key)
        if found is None or not self.pods.synced.is_set():
            return None if found is None else MOVE_S
        job = self._kueue.seen(found)
        order = gang.read_order(job)
        if order is not None:
            self._endings.pop(key, None)
            return MOVE_S if await self._mover.step(job, order, self._book.of(key)) else None
        ending = self._endings.get(key)
        if ending is None:
            return None
        if found.suspended or job.suspended or job.succeeded:
            self._endings.pop(key, None)  # ended by somebody's will, or well in spite of it
            return None
        due = ending.due_in(self._parts.clock())
        if due:
            return due
        await self._conclude(job, ending)
        self._endings.pop(key, None)
        return None

    async def _conclude(self, job: Job, ending: Ending) -> None:
        """Diagnose, record, and order what follows. Who comes second finds the record, and follows it."""
        now = self._parts.clock()
        nodes = [*(pod.node for pod in self._book.of(job.key)), *ending.nodes.values()]
        attempt = judge.attempt_of(job, ending, nodes, now)
        healths = [health for name in attempt.nodes if (health := self._nodes.healths.get(name)) is not None]
        events = await self._evidence.events(job)
        window_s = self._parts.settings.diagnosis.window_s
        known = [node for name in attempt.nodes if (node := self._nodes.nodes.get(name)) is not None]
        ending.silent = {node.name: node.unready_since for node in known if not node.ready}
        diagnosis = judge.diagnosis_of(ending, attempt, healths, events, self._parts.catalogue, window_s)
        history = gang.history_of(gang.read_attempts(job), now - self._policy.infrastructure_retry_h * 3600)
        failed = quarantine.failed_nodes(self._nodes.nodes, gang.EXCLUDED_MAX)
        decision = decide(diagnosis, attempt, history, self._policy, now, failed)
        interruption = Interruption(attempt, diagnosis, decision, self._policy.mode, now)
        await self._parts.turn()
        recorded = await interruptions.record(self._parts.api, job, interruptions.body(job, self._kind, interruption))
        await self._order(job, recorded)
        if self._policy.mode is Mode.FULL and job.leave_alone and recorded.decision.job.requeue:
            await self._move(job, ending)

    async def _move(self, job: Job, ending: Ending) -> None:
        """Delete those pods of a job that we may not suspend whose preflight keeps them off a node that is out.

        Their controller makes them anew, elsewhere; the others have not begun without them.
        """
        for uid, name in ending.kept_off.items():
            if "Never" in job.restart or not self._mover.is_out(ending.nodes[uid]):
                continue
            await self._parts.turn()
            path = path_of("v1", "pods", job.namespace, name)
            try:
                await self._parts.api.delete(path, {"preconditions": {"uid": uid}})
            except ApiError as error:
                if not (error.is_conflict or error.status == 404):
                    raise
                continue  # it is gone, or another has its name
            self._writer.tell(job, "Moved", f"{name} is made anew, because {ending.nodes[uid]} is out", warning=False)

    async def _order(self, job: Job, interruption: Interruption) -> None:
        """Put what was decided on the job, and say it."""
        diagnosis, action = interruption.diagnosis, interruption.decision.job
        self._parts.counts.interruptions[diagnosis.label] += 1
        past = gang.past_of(job, interruption)
        order = self._order_of(job, past, action)
        # Said first, as all that is said of a job: when the answer to the write is lost, nothing comes back here.
        self._say_interrupted(job, interruption)
        await self._writer.patch(job, gang.concluded(job, order, past, diagnosis.label))

    def _say_interrupted(self, job: Job, interruption: Interruption) -> None:
        action = interruption.decision.job
        refrain = f" Not done: {job.leave_alone}." if action.requeue and job.leave_alone else ""
        said = f"{interruption.diagnosis.sentence} Decision: {action.reason}.{refrain}"
        self._writer.tell(job, "Interrupted", said, warning=True, at=interruption.decided_at)

    def _say_again(self, job: Job, number: int, interruption: Interruption) -> None:
        """Say what was done about an attempt: an operator before us may have died between the deed and its event."""
        self._say_interrupted(job, interruption)
        past = next((each for each in gang.read_attempts(job) if each.number == number), None)
        if past is not None and past.requeued and not job.order and not job.suspended:
            self._writer.tell_requeued(job, number)

    def _order_of(self, job: Job, past: Past, action: JobAction) -> Order | None:
        if self._policy.mode is not Mode.FULL or job.leave_alone:
            return None
        if past.requeued:
            return Order(job.uid, past.number, past.at + action.delay, action.exclude, avoid=action.avoid)
        loops = any(each.root == past.root for each in gang.read_attempts(job))
        if loops and not job.failed:
            return Order(job.uid, past.number, past.at, (), stop=True)
        return None
