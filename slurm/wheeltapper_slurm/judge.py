"""Where the Slurm side asks the brain: one diagnosis, one decision, one record per attempt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from wheeltapper.attempt import Attempt
from wheeltapper.config import Config
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.diagnosis.kept_off import kept_off
from wheeltapper.diagnosis.lessons import reconsider
from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.labels import UNKNOWN
from wheeltapper.ledger.learned import lessons
from wheeltapper.ledger.model import Interruption
from wheeltapper.ledger.store import Ledger
from wheeltapper.policy.decide import decide
from wheeltapper.wire import Leave
from wheeltapper_slurm import acts, comment
from wheeltapper_slurm.gather import Gathered


def conclude(gathered: Gathered, attempt: Attempt, ledger: Ledger, config: Config, now: float) -> str:
    """Diagnose *attempt*, decide, and record both with the acts that follow; return the conclusion as a sentence."""
    diagnosis = reconsider(diagnosis_of(gathered, attempt, config), attempt, lessons(ledger))
    decision = decide(diagnosis, attempt, ledger.history(attempt.job), config.policy, now)
    number = 1 + sum(1 for _ in ledger.interruptions(job=attempt.job))
    note = comment.entry(number, diagnosis, decision.job)
    interruption = Interruption(attempt, diagnosis, decision, config.policy.mode, now)
    ledger.record(interruption, acts.plan(decision, attempt, note, config.policy))
    return f"{diagnosis.sentence} Decision: {decision.job.reason}."


def diagnosis_of(gathered: Gathered, attempt: Attempt, config: Config) -> Diagnosis:
    """Return the diagnosis of *attempt* from all that its nodes have reported."""
    for leave in gathered.kept_off:
        return kept_off(leave.findings)
    findings = [finding for report in gathered.reports for finding in report.findings]
    findings += [finding for log in gathered.logs for finding in log.findings]
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


def complaints(configuration: Mapping[str, str]) -> Iterator[str]:
    """Yield what in slurmctld's *configuration* would hurt users, each as a sentence that says what to do."""
    if "nohold_on_prolog_fail" not in configuration.get("SchedulerParameters", ""):
        yield (
            "SchedulerParameters lacks nohold_on_prolog_fail, so Slurm holds every job that a prolog keeps off a node;"
            " we release the ones that we kept off, but the parameter should be set"
        )
    if not {"Alloc", "Contain"} & set(configuration.get("PrologFlags", "").split(",")):
        yield "PrologFlags lacks Alloc, so nodes on which no step starts are never checked"
    if configuration.get("EpilogSlurmctld", "(null)") in {"(null)", ""}:
        yield "EpilogSlurmctld is not set, so no end of a job reaches this service"
