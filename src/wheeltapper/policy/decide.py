"""From a diagnosis to a decision: design rules in one pure function per kind of answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wheeltapper import labels
from wheeltapper.attempt import Attempt, Ending
from wheeltapper.config import PolicySection
from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.policy.model import Decision, History, JobAction, NodeAction, Payer
from wheeltapper.policy.reason import format_reason


def decide(
    diagnosis: Diagnosis,
    attempt: Attempt,
    history: History,
    policy: PolicySection,
    now: float,
    failed: Sequence[str] = (),
) -> Decision:
    """Return what is to be done about *diagnosis*, whatever the mode: what a mode forbids is recorded, not done.

    *failed* are nodes that have failed, the last first; a large job that runs again avoids them.
    """
    if attempt.ending is Ending.LAUNCH_FAILED and diagnosis.confirmed:
        job = _kept_off(diagnosis)
    else:
        job = _wanted(diagnosis, attempt, history, policy)
        job = _permitted(job, attempt, history, policy) if job.requeue else job
        if job.requeue and job.payer is not Payer.NOBODY and (diagnosis.name, attempt.step) in history.roots:
            job = _stop(job, f"{diagnosis.name} has stopped the job at step {attempt.step} before, and would again")
    if len(attempt.nodes) > policy.probation_max_nodes:
        job = replace(job, avoid=tuple(node for node in failed if node not in job.exclude))
    return Decision(job=job, quarantine=_quarantine(diagnosis, attempt, now))


def _quarantine(diagnosis: Diagnosis, attempt: Attempt, now: float) -> tuple[NodeAction, ...]:
    root = diagnosis.root
    if not diagnosis.confirmed or root is None or root.evidence.node is None:
        return ()
    return (NodeAction(root.evidence.node, format_reason(root, attempt.job, now)),)


def _wanted(diagnosis: Diagnosis, attempt: Attempt, history: History, policy: PolicySection) -> JobAction:
    name = diagnosis.name
    family = labels.family(diagnosis.label)
    if family == "hardware":
        return _hardware(name, diagnosis)
    if diagnosis.label in labels.TRANSIENT:
        return _transient(name, diagnosis, attempt, history, policy)
    if family == "scheduler":
        return _scheduler(name, diagnosis.label)
    if family == "unknown":
        return JobAction(True, "nothing explains this end, so it is tried once more", payer=Payer.BLIND)
    return JobAction(False, f"{name} would happen again: {_cause(diagnosis)}")


def _kept_off(diagnosis: Diagnosis) -> JobAction:
    guilty = _nodes(diagnosis)
    return JobAction(True, f"the job was kept off {', '.join(guilty)} and runs elsewhere", exclude=guilty)


def _nodes(diagnosis: Diagnosis) -> tuple[str, ...]:
    return tuple(sorted({suspect.node for suspect in diagnosis.suspects if suspect.node}))


def _hardware(name: str, diagnosis: Diagnosis) -> JobAction:
    guilty = _nodes(diagnosis)
    word = "was" if diagnosis.confirmed else "is suspected to be"
    without = f" without {', '.join(guilty)}" if guilty else ""
    return JobAction(
        True,
        f"{name} {word} the machine's fault, so the job runs again{without} at no cost to its retries",
        exclude=guilty,
        payer=Payer.INFRASTRUCTURE,
    )


def _transient(name: str, diagnosis: Diagnosis, attempt: Attempt, history: History, policy: PolicySection) -> JobAction:
    delay = min(policy.backoff_s * 2**history.user, policy.backoff_max_s)
    nodes = _nodes(diagnosis)
    # One node that stands out is avoided; several suspects are no suspect, and a job of one node may need that one.
    exclude = nodes if len(nodes) == 1 and len(attempt.nodes) > 1 else ()
    without = f" without {exclude[0]}" if exclude else ""
    return JobAction(
        True,
        f"{name} is transient, so the job runs again{without} in {delay:g} s",
        delay=delay,
        exclude=exclude,
        payer=Payer.USER,
    )


def _scheduler(name: str, label: labels.Label) -> JobAction:
    if label in {"scheduler/preempted", "scheduler/evicted", "scheduler/maintenance"}:
        return JobAction(True, f"{name} was the scheduler's doing, so the job runs again", payer=Payer.NOBODY)
    return JobAction(False, f"{name} is an end that was asked for")


def _cause(diagnosis: Diagnosis) -> str:
    root = diagnosis.root
    return f"{root.evidence.text[:160]} ({root.evidence.where})" if root else "see the diagnosis"


def _permitted(wanted: JobAction, attempt: Attempt, history: History, policy: PolicySection) -> JobAction:
    why_not = refusal(wanted.payer, attempt, history, policy)
    return wanted if why_not is None else _stop(wanted, why_not)


def _stop(wanted: JobAction, why: str) -> JobAction:
    return replace(wanted, requeue=False, reason=why, delay=0.0, payer=Payer.NOBODY)


def refusal(payer: Payer, attempt: Attempt, history: History, policy: PolicySection) -> str | None:
    """Return why *attempt* may not run again at the cost of *payer*, as a sentence; None when it may."""
    if not attempt.batch:
        return "an interactive job is diagnosed and never requeued"
    if attempt.ending is Ending.CANCELLED:
        return "the job was cancelled, and what a person ended stays ended"
    if attempt.scheduler_requeued:
        return "the scheduler has requeued the job already"
    if attempt.leave_alone:
        return attempt.leave_alone
    if not attempt.requeueable:
        return "the job was submitted with --no-requeue"
    if attempt.wants_requeue is False:
        return "the user asked not to have it run again (wheeltapper=off)"
    if attempt.wants_requeue is None and not policy.requeue_by_default:
        return "jobs run again here only when they ask for it (wheeltapper=on)"
    return _used_up(payer, history, policy)


def _used_up(payer: Payer, history: History, policy: PolicySection) -> str | None:
    if payer is Payer.USER and history.user >= policy.retry_budget:
        return f"the job has used up its {policy.retry_budget} retries"
    if payer is Payer.BLIND and history.blind >= policy.unknown_retries:
        return "nothing explains this end, and trying again did not help"
    if payer is Payer.INFRASTRUCTURE and history.infrastructure >= policy.infrastructure_retry_budget:
        times = f"{history.infrastructure} times within {policy.infrastructure_retry_h:g} hours"
        return f"the machines have failed this job {times}; a person should look"
    return None
