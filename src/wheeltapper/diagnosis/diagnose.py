"""From findings to one answer. Pure and deterministic: the same findings give the same diagnosis, byte for byte.

The rules stand in the design's section on diagnosis: the earliest root and not the loudest line, node evidence before
log text, the silent rank as the suspect, and unknown before wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from wheeltapper.attempt import Attempt
from wheeltapper.diagnosis import cleared, silent, words
from wheeltapper.diagnosis.admit import admit
from wheeltapper.diagnosis.candidates import Candidate, candidates, ending
from wheeltapper.diagnosis.depth import Depth, depth, is_node_wide, place, story
from wheeltapper.diagnosis.inferred import infer
from wheeltapper.diagnosis.model import Diagnosis, Rejected, Suspect
from wheeltapper.diagnosis.places import with_nodes
from wheeltapper.diagnosis.surface import surface
from wheeltapper.evidence import Disposition, Finding, Role, Source
from wheeltapper.labels import UNKNOWN, Label, family
from wheeltapper.recovery import graver, heeded

CONFIDENCE: Mapping[Depth, float] = {
    Depth.CONVICTED: 0.95,
    Depth.MACHINE: 0.9,
    Depth.LOG: 0.8,
    Depth.NODE: 0.6,
    Depth.ENDING: 0.9,
    Depth.EXCEPTION: 0.6,
    Depth.INFERRED: 0.5,
    Depth.HINT: 0.4,
    Depth.SYMPTOM: 0.3,
}
"""How sure each kind of evidence makes us; an order, not a measured rate."""

UNHEARD = 0.4
"""How sure we are at most of a node that is down because nobody hears of it."""

LOUDNESS = (Role.SYMPTOM, Role.CASCADE, Role.ROOT)
"""From the loudest consequence of a root to the quietest."""

WITNESSES_MAX = 2
"""Confirming findings that the chain shows."""

REJECTED_MAX = 12
"""Alternatives that are listed: more is not read."""


def diagnose(
    findings: Sequence[Finding],
    attempt: Attempt | None,
    *,
    window_s: float,
    job_gpus: Mapping[str, tuple[str, ...]] | None = None,
) -> Diagnosis:
    """Return why *attempt* stopped.

    *window_s* says how far before the end evidence of a node may lie, *job_gpus* which GPUs (PCI addresses) the job
    had on a node; a node that is not named, or with none, may have had any.
    """
    admitted = admit(sorted(findings, key=place), attempt, window_s, job_gpus or {})
    kernel = heeded(each for each in admitted.findings if each.evidence.source is Source.KERNEL)
    others = [each for each in admitted.findings if each.evidence.source is not Source.KERNEL]
    told = infer(story([*kernel, *others, *ending(attempt)]))
    possible, set_aside = candidates(told, attempt)
    rejected = (*admitted.rejected, *set_aside, *cleared.as_rejected(told))
    if possible:
        return _conclude(possible, told, rejected, attempt)
    symptom = _loudest(told, None)
    return Diagnosis(
        symptom=symptom.label if symptom else None,
        chain=(symptom,) if symptom and symptom.role is not Role.ROOT else (),
        rejected=rejected[:REJECTED_MAX],
        sentence=words.nothing_found(attempt, symptom),
    )


def _conclude(
    possible: Sequence[Candidate], told: Sequence[Finding], rejected: Sequence[Rejected], attempt: Attempt | None
) -> Diagnosis:
    first = possible[0]
    root = _raised(first.finding, told)
    symptom = _loudest(told, root)
    # An echo that the catalogue gives no label is worth a line of the chain, but no name.
    named = symptom if symptom is not None and symptom.label != UNKNOWN else None
    accused = with_nodes(_suspects(root, told, attempt), told)
    lesser = [
        Rejected(each.finding.label, each.finding.evidence.where, _why_lesser(first, each))
        for each in _one_per_label(possible, root.label)
    ]
    return Diagnosis(
        label=root.label,
        detail=root.detail,
        symptom=named.label if named else surface(root),
        disposition=root.disposition,
        confidence=_confidence(first),
        confirmed=root.convicts,
        chain=(root, *_witnesses(root, told), *((symptom,) if symptom else ())),
        suspects=accused,
        rejected=(*rejected, *lesser)[:REJECTED_MAX],
        sentence=words.sentence(root, named, accused),
    )


def _confidence(candidate: Candidate) -> float:
    # A scheduler that hears nothing of a node can't tell a dead machine from a dead daemon or a cut line.
    if candidate.finding.label == "hardware/node_down":
        return min(CONFIDENCE[candidate.depth], UNHEARD)
    return CONFIDENCE[candidate.depth]


def _raised(root: Finding, told: Sequence[Finding]) -> Finding:
    """Return *root* as its machine tells it: from the first line that states it, with the gravest disposition.

    One GPU has one repair. A milder line of the same fault may come first, and is where the story begins.
    """
    if not root.convicts:
        return root
    same = [each for each in told if each.role is Role.ROOT and _place(each) == _place(root)]
    disposition = root.disposition
    if root.evidence.gpu is not None:
        for each in same:
            disposition = graver(disposition, each.disposition) if each.convicts else disposition
    first = next(
        each
        for each in same
        if each == root or (each.label == root.label and each.disposition is Disposition.NONE and _alike(each, root))
    )
    return replace(first, disposition=disposition)


def _alike(one: Finding, other: Finding) -> bool:
    """Return whether one may be a milder line of the other: a check that warns of another device is none."""
    if one.evidence.source is Source.CHECK and one.fields.get("device") != other.fields.get("device"):
        return False
    return one.evidence.source is other.evidence.source


def _witnesses(root: Finding, told: Sequence[Finding]) -> list[Finding]:
    if root.evidence.source is not Source.KERNEL:
        return []
    return [each for each in told if each.role is Role.CONFIRM and _place(each) == _place(root)][:WITNESSES_MAX]


def _place(finding: Finding) -> tuple[str | None, str | None]:
    return finding.evidence.node, finding.evidence.gpu


def _loudest(told: Sequence[Finding], root: Finding | None) -> Finding | None:
    """Return the consequence that people see first: a symptom, else an echo, else a lesser root.

    What has no label says less than what has one, and so does the scheduler's word, which follows every failure. A
    node that went down says more than what its peers saw of that.
    """
    seen = [each for each in told if (root is None or each.label != root.label) and _is_consequence(each)]
    return min(
        seen,
        key=lambda each: (
            each.label == UNKNOWN,
            family(each.label) == "scheduler",
            each.label != "hardware/node_down",
            LOUDNESS.index(each.role),
        ),
        default=None,
    )


def _is_consequence(finding: Finding) -> bool:
    if is_node_wide(finding):
        return False  # nobody sees it when a job ends
    if finding.role is Role.ROOT:
        how_deep = depth(finding)
        return how_deep > Depth.MACHINE and how_deep is not Depth.EXCEPTION
    return finding.role in LOUDNESS


def _one_per_label(possible: Sequence[Candidate], known: Label) -> list[Candidate]:
    first = {each.finding.label: each for each in reversed(possible)}
    return sorted((each for label, each in first.items() if label != known), key=lambda each: each.rank)


def _why_lesser(root: Candidate, lesser: Candidate) -> str:
    if lesser.depth is Depth.SYMPTOM:
        return f"a symptom, which {root.finding.label} explains"
    if lesser.depth is root.depth:
        return f"it came after {root.finding.label}"
    return f"{root.finding.label} lies deeper"


def _suspects(root: Finding, told: Sequence[Finding], attempt: Attempt | None) -> tuple[Suspect, ...]:
    seen = root.evidence
    # A resource may be short on every node alike; one device that a check looked at stands out.
    if family(root.label) not in {"hardware", "network", "unknown"} and not (seen.source is Source.CHECK and seen.gpu):
        return ()
    if seen.source is not Source.JOB_LOG and (seen.node or seen.gpu):
        return (Suspect(seen.node, seen.gpu, reason=root.summary),)
    if root.role is Role.SYMPTOM and not (root.label == UNKNOWN and "node" in root.fields):
        return silent.suspects(told, attempt)
    # A log is read on one node and written by all: only a name in the line itself says whose fault it was.
    node = root.fields.get("node") or root.fields.get("host")
    if node is None and attempt is not None and len(attempt.nodes) == 1:
        node = attempt.nodes[0]
    if node is None and seen.rank is None:
        return ()
    return (Suspect(node.partition(".")[0] if node else None, seen.gpu, seen.rank, root.summary),)
