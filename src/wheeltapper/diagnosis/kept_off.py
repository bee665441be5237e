"""The diagnosis of a job that our own check kept off a broken node: nothing to infer, the verdict is the cause."""

from __future__ import annotations

from collections.abc import Sequence

from wheeltapper.diagnosis.model import Diagnosis, Suspect
from wheeltapper.evidence import Finding


def kept_off(findings: Sequence[Finding], by: str = "prolog") -> Diagnosis:
    """Return the diagnosis that rests on the *findings* of the node's verdict, the gravest first; *by* names the check.

    Raises:
        ValueError: there is no finding; nothing is kept off a node without one.
    """
    if not findings:
        raise ValueError("a job is kept off a node only on a finding")
    root = findings[0]
    seen = root.evidence
    gpu = f" GPU {seen.gpu}" if seen.gpu else ""
    name = f"{root.label} {root.detail}".strip()
    return Diagnosis(
        label=root.label,
        detail=root.detail,
        disposition=root.disposition,
        confidence=1.0,
        confirmed=True,
        chain=(root,),
        suspects=(Suspect(node=seen.node, gpu=seen.gpu, reason=f"{name}, seen before the job came"),),
        sentence=f"the {by} kept the job off {seen.node}{gpu}: {name}, seen before the job came.",
    )
