"""From all that was read to one case: which job it is about, and which findings are its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from wheeltapper.attempt import Attempt
from wheeltapper.evidence import Finding, Role, Source
from wheeltapper.inputs.model import Reading

_SLURM_OUT = re.compile(r"(?:^|/)slurm-(?P<job>\d+)(?:[._]|$)")


@dataclass(frozen=True, slots=True)
class Case:
    """What is to be diagnosed: the findings, and the attempt where a scheduler's record tells it."""

    findings: tuple[Finding, ...]
    attempt: Attempt | None


def conclude(readings: Sequence[Reading], names: Iterable[str] = ()) -> Case:
    """Return the case that all *readings* make; *names* are those of the files."""
    findings = [*(each for reading in readings for each in reading.findings), *_judged(readings)]
    attempt = _subject([each for reading in readings for each in reading.attempts], names)
    jobs = frozenset(job.lower() for reading in readings for job in reading.jobs)
    hosts = {pod: node for reading in readings for pod, node in reading.places}
    findings = [each for each in findings if _is_of_job(each, attempt) and _is_of_objects(each, jobs, hosts)]
    findings = _planned(_placed(findings, hosts))
    return Case(tuple(findings), _comparable(attempt, findings))


def _judged(readings: Sequence[Reading]) -> list[Finding]:
    """Return what several documents say together; logs alone need no judge to be loaded."""
    samples = [each for reading in readings for each in reading.samples]
    states = [each for reading in readings for each in reading.gpus]
    dumps = [each for reading in readings for each in reading.dumps]
    seen = [each for reading in readings for each in reading.ports]
    if not (samples or states or dumps or seen):
        return []
    from wheeltapper.inputs.judging import cgroups, congestion, counters, gpus, ports, recorder  # noqa: PLC0415

    grown = counters.growths(samples)
    return [
        *counters.judge(grown),
        *counters.judge_alone(samples),
        *congestion.judge(grown),
        *cgroups.judge(samples),
        *gpus.judge(states),
        *recorder.judge(dumps),
        *ports.judge(seen),
    ]


def _subject(attempts: Sequence[Attempt], names: Iterable[str]) -> Attempt | None:
    """Return the attempt that is asked about: of the job whose log is among the files, else the last that ended."""
    named = {found["job"] for name in names if (found := _SLURM_OUT.search(name))}
    mine = [each for each in attempts if each.job in named] or list(attempts)
    if not mine:
        return None
    last = mine[-1]
    for other in mine:  # one record knows the failed node, another the nodes: the same attempt's are put together
        if other.job == last.job and other.ending is last.ending:
            last = replace(
                last,
                nodes=last.nodes or other.nodes,
                failed_node=last.failed_node or other.failed_node,
                batch_host=last.batch_host or other.batch_host,
                logs=last.logs or other.logs,
            )
    return last


def _is_of_job(finding: Finding, attempt: Attempt | None) -> bool:
    job = finding.fields.get("job")
    return (
        attempt is None
        or job is None
        or finding.evidence.source is not Source.SCHEDULER
        or job.partition("_")[0] == attempt.job.partition("_")[0]
    )


def _is_of_objects(finding: Finding, jobs: frozenset[str], hosts: Mapping[str, str]) -> bool:
    """False for what Kubernetes says of another job's pods, or of a node on which this job had none."""
    subject = finding.fields.get("object")
    if subject is None or not jobs:
        return True
    kind, _, name = subject.partition("/")
    if kind == "node":
        return not hosts or name in hosts.values()
    return any(name == job or name.startswith(f"{job}-") for job in jobs)


def _placed(findings: Sequence[Finding], hosts: Mapping[str, str]) -> list[Finding]:
    """Put the node's name where a pod's stands, and the only node that was looked at where none stands."""
    looked_at = [each.evidence for each in findings if each.evidence.source in {Source.KERNEL, Source.CHECK}]
    known = {hosts.get(seen.node, seen.node) for seen in looked_at if seen.node}
    only = next(iter(known)) if len(known) == 1 else None
    result = []
    for each in findings:
        seen = each.evidence
        node = hosts.get(seen.node, seen.node) if seen.node else only
        if seen.source is Source.CHECK and node != seen.node and not each.label.startswith("network/"):
            result.append(replace(each, evidence=replace(seen, node=node)))
        else:
            result.append(each)
    return result


def _planned(findings: list[Finding]) -> list[Finding]:
    """Make a lost node a symptom where the scheduler says that it was taken down on purpose."""
    if not any(each.label == "scheduler/maintenance" and each.role is Role.ROOT for each in findings):
        return findings
    return [
        replace(each, role=Role.SYMPTOM) if each.label == "hardware/node_down" and each.role is Role.ROOT else each
        for each in findings
    ]


def _comparable(attempt: Attempt | None, findings: Sequence[Finding]) -> Attempt | None:
    """Drop the nodes of *attempt* when none of them is named by the evidence: then their names are of another kind."""
    if attempt is None or not attempt.nodes:
        return attempt
    named = {each.evidence.node for each in findings if each.evidence.node}
    return attempt if not named or named & set(attempt.nodes) else replace(attempt, nodes=())
