"""Where the Slurm side asks the brain: one diagnosis, one decision, one record per attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wheeltapper.attempt import Attempt
from wheeltapper.config import Config
from wheeltapper.diagnosis import drift
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.diagnosis.kept_off import kept_off
from wheeltapper.diagnosis.lessons import reconsider
from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.labels import UNKNOWN
from wheeltapper.ledger.learned import lessons
from wheeltapper.ledger.model import Act, Interruption
from wheeltapper.ledger.store import Ledger
from wheeltapper.policy.decide import decide
from wheeltapper.wire import Leave
from wheeltapper_slurm import acts, comment, gather
from wheeltapper_slurm.gather import Gathered


def conclude(
    gathered: Gathered, attempt: Attempt, ledger: Ledger, config: Config, now: float, done: Sequence[Act] = ()
) -> str:
    """Diagnose *attempt*, decide, and record both with the acts that follow; return the conclusion as a sentence.

    *done* is what was done before, to end the attempt.
    """
    diagnosis = reconsider(diagnosis_of(gathered, attempt, config), attempt, lessons(ledger))
    history = ledger.history(attempt.job, faults_since=faults_since(config, now))
    decision = decide(diagnosis, attempt, history, config.policy, now, ledger.failed_nodes(acts.MAX_EXCLUDED))
    number = 1 + sum(1 for _ in ledger.interruptions(job=attempt.job))
    note = comment.entry(number, diagnosis, decision.job)
    interruption = Interruption(attempt, diagnosis, decision, config.policy.mode, now)
    ledger.record(interruption, [*done, *acts.plan(decision, attempt, note, config.policy)])
    return f"{diagnosis.sentence} Decision: {decision.job.reason}."


def amend(gathered: Gathered, ledger: Ledger, config: Config, now: float) -> str:
    """Judge an attempt again that is on record, now that more is known of it, and amend the record.

    What was done stays done: a job that was requeued is not requeued again, whatever is known now.
    """
    for old in ledger.of_attempt(gathered.attempt.key):
        case = replace(old.attempt, step=gather.step(gathered))
        diagnosis = diagnosis_of(gathered, case, config)
        if diagnosis == old.diagnosis:
            return "nothing changes"
        history = ledger.history(case.job, but=case.key, faults_since=faults_since(config, now))
        decision = decide(diagnosis, case, history, config.policy, now, ledger.failed_nodes(acts.MAX_EXCLUDED))
        if old.decision.job.requeue:
            reason = f"it has run again already; by what is known now: {decision.job.reason}"
            decision = replace(decision, job=replace(decision.job, requeue=True, reason=reason))
        number = 1 + [each.attempt.key for each in ledger.interruptions(job=case.job)].index(case.key)
        note = comment.entry(number, diagnosis, decision.job)
        planned = acts.plan(decision, case, note, config.policy)
        if old.decision.job.requeue:
            planned = [act for act in planned if act.kind not in {"requeue", "release", "start"}]
        ledger.amend(replace(old, attempt=case, diagnosis=diagnosis, decision=decision, amended_at=now), planned)
        return f"{diagnosis.sentence} Decision: {decision.job.reason}."
    return "there is no record of it"


def faults_since(config: Config, now: float) -> float:
    """Return from when on requeues count that our machines pay for."""
    return now - config.policy.infrastructure_retry_h * 3600


def diagnosis_of(gathered: Gathered, attempt: Attempt, config: Config) -> Diagnosis:
    """Return the diagnosis of *attempt* from all that its nodes have reported."""
    for leave in gathered.kept_off:
        return kept_off(leave.findings)
    findings = [finding for report in gathered.reports for finding in report.findings]
    findings += [finding for log in gathered.logs for finding in log.findings]
    findings += drift.between({report.node: report.versions for report in gathered.reports})
    gpus = {report.node: report.stay.gpus for report in gathered.reports}
    diagnosis = diagnose(findings, attempt, window_s=config.diagnosis.window_s, job_gpus=gpus)
    unread = [file for log in gathered.logs for file in log.unreadable]
    if diagnosis.label == UNKNOWN and unread:
        # The cause may well stand in what nobody could read.
        return replace(diagnosis, sentence=f"{diagnosis.sentence} Not read: {'; '.join(unread)}.")
    return diagnosis


def leaves(ledger: Ledger, key: str) -> Iterator[Leave]:
    """Yield a request to leave for each node that the decision on the attempt *key* takes out."""
    for interruption in ledger.of_attempt(key):
        root = interruption.diagnosis.root
        for action in interruption.decision.quarantine:
            if root is not None:
                boot = root.evidence.boot_id or ""
                yield Leave(action.node, boot, "epilog", (root,), interruption.attempt.job)
