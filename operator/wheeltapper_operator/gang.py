"""The gang requeue of one job, as a pure answer: what comes next, from the job as it is.

suspend, wait until no pod of the old attempt exists, revive what has failed for good, shut the bad hosts out, resume.
The order stands on the job itself, fenced by its UID and its attempt, so that any operator may go on with it at any
point, and none does a step twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pydantic import ValidationError

from wheeltapper import codec
from wheeltapper import kubernetes_names as names
from wheeltapper.config import Mode
from wheeltapper.ledger.model import Interruption
from wheeltapper.policy.model import History, Payer
from wheeltapper_operator.affinity import Hosts, replaced
from wheeltapper_operator.api import Json
from wheeltapper_operator.jobs import Job, Kind, read_names

ATTEMPTS_MAX = 20
EXCLUDED_MAX = 20
"""Host names in a job's affinity, of each kind: what is older has long been mended or replaced."""

OURS = (names.ORDER, names.ATTEMPTS, names.EXCLUDED, names.AVOIDED, names.LABEL)
"""The annotations of a job that are ours."""


class Stage(str, Enum):
    """How far an order has come."""

    ORDERED = "ordered"
    SUSPENDED = "suspended"


class Move(str, Enum):
    """The next thing to do to a job."""

    NOTHING = "nothing"
    SUSPEND = "suspend"
    REVIVE = "revive"
    WAIT = "wait"
    RESUME = "resume"
    FORGET = "forget"
    """A person has taken the job in hand, or it has ended: the order goes."""


@dataclass(frozen=True, slots=True)
class Past:
    """One attempt that ended: ``root`` is its label with detail, ``at`` (Unix seconds) when it was decided on."""

    number: int
    root: str
    payer: Payer
    requeued: bool
    at: float


@dataclass(frozen=True, slots=True)
class Order:
    """A requeue under way: of which attempt, not before when (Unix seconds), and without which nodes.

    ``avoid`` are nodes that it does without as far as there are others.
    """

    uid: str
    attempt: int
    not_before: float
    exclude: tuple[str, ...]
    stage: Stage = Stage.ORDERED
    stop: bool = False
    """The job is suspended and stays so: it would fail again, for ever."""
    avoid: tuple[str, ...] = ()


def read_attempts(job: Job) -> tuple[Past, ...]:
    """Return the earlier attempts that *job* remembers."""
    try:
        return tuple(codec.load(Past, each) for each in json.loads(job.attempts)) if job.attempts else ()
    except (ValueError, TypeError, ValidationError):
        return ()


def read_order(job: Job) -> Order | None:
    """Return the order on *job*; None when there is none, or none for this very job: a copy has another UID."""
    order = order_in(job.order)
    return order if order is not None and order.uid == job.uid else None


def order_in(text: str) -> Order | None:
    """Return the order in an annotation; None when there is none, or none that is understood."""
    try:
        return codec.loads(Order, text) if text else None
    except ValidationError:
        return None


def number_of(job: Job) -> int:
    """Return the number of the attempt that *job* is in, from 1."""
    return 1 + max((each.number for each in read_attempts(job)), default=0)


def decided_at(job: Job) -> float:
    """Return when the last attempt of *job* was decided on (Unix seconds); 0 when none was."""
    return max((each.at for each in read_attempts(job)), default=0.0)


def past_of(job: Job, interruption: Interruption) -> Past:
    """Return what *job* is to remember of the attempt that it is in."""
    diagnosis, action = interruption.diagnosis, interruption.decision.job
    requeued = action.requeue and interruption.mode is Mode.FULL and not job.leave_alone
    root = f"{diagnosis.label} {diagnosis.detail}".strip()
    return Past(number_of(job), root, action.payer, requeued, interruption.decided_at)


def history_of(pasts: Iterable[Past], faults_since: float = 0.0) -> History:
    """Return what the policy must know of earlier attempts; those that infrastructure paid from *faults_since* on."""
    sent_on = [each for each in pasts if each.requeued]
    paid = [each.payer for each in sent_on if each.payer is not Payer.INFRASTRUCTURE or each.at >= faults_since]
    return History(paid.count(Payer.USER), paid.count(Payer.INFRASTRUCTURE), paid.count(Payer.BLIND))


def next_move(job: Job, order: Order | None, pods: int, now: float) -> Move:
    """Return what is next for *job* at *now* (Unix seconds), of which *pods* pods still exist."""
    if order is None:
        return Move.NOTHING
    if job.succeeded or (order.stage is Stage.SUSPENDED and not job.suspended):
        return Move.FORGET
    if job.queued and job.failed:
        return Move.FORGET  # for Kueue it has finished, and nothing makes it queue again
    if order.stage is Stage.ORDERED:
        return Move.SUSPEND
    if order.stop:
        return Move.FORGET
    if job.failed:
        return Move.REVIVE
    if pods or job.stopping or now < order.not_before:
        return Move.WAIT
    return Move.RESUME


def concluded(job: Job, order: Order | None, past: Past, label: str) -> Json:
    """Return the merge patch that puts *past* with its *label* into *job*'s memory, and *order*, if any, on it."""
    kept = [*read_attempts(job), past][-ATTEMPTS_MAX:]
    memory = {names.ATTEMPTS: json.dumps([codec.dump(each) for each in kept]), names.LABEL: label}
    return _annotated(job, memory | ({names.ORDER: codec.dumps(order)} if order else {}))


def suspended(job: Job, kind: Kind, order: Order) -> Json:
    """Return the merge patch that suspends *job*; one that is Kueue's is only marked, and Kueue is told elsewhere."""
    after = replace(order, stage=Stage.SUSPENDED)
    return _annotated(job, {names.ORDER: codec.dumps(after)}) | ({} if job.queued else kind.suspension(True))


def forgotten(job: Job) -> Json:
    """Return the merge patch that takes the order away."""
    return _annotated(job, {names.ORDER: None})


def cleared(job: Job, kind: Kind) -> Json:
    """Return the merge patch after which *job* carries nothing of ours, and goes on if it was we who held it."""
    order = read_order(job)
    is_ours = order is not None and order.stage is Stage.SUSPENDED and not order.stop
    held = is_ours and job.suspended and not job.queued
    return _annotated(job, dict.fromkeys(OURS)) | (kind.suspension(False) if held else {})


def revived(item: Json) -> Json:
    """Return the merge patch of the status under which a job that has failed may run again; *item* is its JSON."""
    conditions = [each for each in item.get("status", {}).get("conditions") or () if each.get("type") != "Failed"]
    return {
        "metadata": {"resourceVersion": item["metadata"]["resourceVersion"]},
        "status": {"conditions": conditions, "completionTime": None},
    }


def resumed(item: Json, job: Job, kind: Kind, hosts: Hosts) -> Json:
    """Return the merge patch that sends *job* on without *hosts*; *item* is its JSON.

    Kueue compares a job's templates with what it has admitted: one that is Kueue's keeps them, and the taint alone
    keeps it off a node.
    """
    if job.queued:
        return _annotated(job, {names.ORDER: None})
    patch = kind.suspension(False)
    if not kind.excludes:
        return _annotated(job, {names.ORDER: None}) | patch
    excluded = tuple(dict.fromkeys(hosts.excluded))[-EXCLUDED_MAX:]
    hosts = Hosts(excluded, tuple(each for each in hosts.avoided if each not in excluded)[:EXCLUDED_MAX])
    before = Hosts(read_names(job.excluded), read_names(job.avoided))
    for way, template in kind.templates(item).items():
        affinity = template.get("spec", {}).get("affinity") or {}
        _put(patch, (*way, "spec", "affinity"), replaced(affinity, before, hosts))
    ours = {names.EXCLUDED: hosts.excluded, names.AVOIDED: hosts.avoided}
    written = {name: json.dumps(each) if each else None for name, each in ours.items()}
    return _annotated(job, {names.ORDER: None, **written}) | patch


def _annotated(job: Job, annotations: Json) -> Json:
    # With the version that was read: whoever changed the job meanwhile makes this fail, and it is thought over again.
    return {"metadata": {"resourceVersion": job.version, "annotations": annotations}}


def _put(patch: Json, way: Sequence[str], value: Json) -> None:
    for key in way[:-1]:
        patch = patch.setdefault(key, {})
    patch[way[-1]] = value
