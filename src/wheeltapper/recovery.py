"""What the NVIDIA driver itself says a GPU needs: Xid 154, whose newest hexadecimal value counts for its GPU.

Source: NVIDIA's Xid catalogue and the open kernel modules; the words around the value differ between driver branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from wheeltapper import nvlink4, nvlink5
from wheeltapper.evidence import Disposition, Finding, Role, Source
from wheeltapper.labels import Label

ADVICE: Final = "nvidia.recovery_action"
PROBE: Final = "nvidia.probe"
LOST: Final = "nvidia.gpu_lost"
XID_79: Final = "nvidia.xid.79"

ACTIONS: Final[Mapping[int, Disposition]] = {
    0x1: Disposition.RESET_GPU,  # GPU reset
    0x2: Disposition.REBOOT,  # node reboot
    0x4: Disposition.RESET_GPU,  # drain, then reset
    0x6: Disposition.RESET_GPU,  # bus reset
    0x7: Disposition.REBOOT,  # system reboot
}
"""0x0 clears; 0x3 (drain peer-to-peer) and 0x5 (recover the IMEX domain) ask nothing of the GPU itself."""

GRAVITY: Final = (
    Disposition.NONE,
    Disposition.RESTART_APP,
    Disposition.RESET_GPU,
    Disposition.INSPECT,
    Disposition.REPLACE,
    Disposition.REBOOT,
)
"""From the mildest to the gravest: what a reboot is asked for, nothing less mends."""

PROBE_RECORDS = 4
"""A GPU that does not answer at probe is told over three records, and only the first names it."""

Place = tuple[str | None, str | None]


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return *findings* as they happened; what says neither when nor in which place stays where it was given."""
    return sorted(findings, key=lambda each: (each.evidence.at or 0.0, each.evidence.sequence or 0))


def graver(one: Disposition, other: Disposition) -> Disposition:
    """Return the graver of two dispositions."""
    return max(one, other, key=GRAVITY.index)


def heeded(findings: Iterable[Finding]) -> list[Finding]:
    """Return *findings* of one boot in order, with the driver's newest advice on each GPU taken to heart.

    An advice of ``0x0`` takes the disposition from what came before it on that GPU; any other raises it for the
    hardware faults there. Where none convicts, the first milder line of that GPU is what it is about; an advice with no
    line of a fault before it stands for the fault whose own line is lost. An Xid 79 whose GPU the driver also calls
    lost is a lost GPU.
    """
    ordered = _gone(_named(in_order(nvlink4.decoded(nvlink5.decoded(findings)))))
    newest = {_place(each): number for number, each in enumerate(ordered) if each.signature == ADVICE}
    result: list[Finding] = []
    for number, each in enumerate(ordered):
        said = newest.get(_place(each))
        action = _action(ordered[said]) if said is not None else None
        result.append(_heed(each, action, before=said is not None and number < said))
    for place, number in newest.items():
        asked = ACTIONS.get(_action(ordered[number]), Disposition.NONE)
        raised = any(_place(each) == place and each.convicts for each in result)
        if asked.convicts and not raised:
            behind = _fault_behind(ordered[number], result)
            about = number if behind is None else behind
            result[about] = replace(result[about], role=Role.ROOT, disposition=asked)
    return result


def _fault_behind(advice: Finding, findings: Sequence[Finding]) -> int | None:
    """Return which of *findings* the driver gives *advice* about: the first fault of that GPU in the same boot.

    Some codes convict nobody by themselves, because the driver's bits of them are not decoded: here it has spoken.
    """
    for number, each in enumerate(findings):
        if each.signature == ADVICE:
            if each == advice:
                return None
        elif (
            _place(each) == _place(advice)
            and each.evidence.boot_id == advice.evidence.boot_id
            and each.role is Role.SYMPTOM
            and _is_fault_of_gpu(each)
        ):
            return number
    return None


def _heed(finding: Finding, action: int | None, *, before: bool) -> Finding:
    if action is None or finding.role is not Role.ROOT or not _is_fault_of_gpu(finding):
        return finding
    if action == 0:
        return replace(finding, disposition=Disposition.NONE) if before else finding
    asked = ACTIONS.get(action, Disposition.NONE)
    return replace(finding, disposition=graver(finding.disposition, asked)) if asked.convicts else finding


def _is_fault_of_gpu(finding: Finding) -> bool:
    seen = finding.evidence
    return seen.source is Source.KERNEL and seen.gpu is not None and finding.label.startswith("hardware/")


def _place(finding: Finding) -> Place:
    return finding.evidence.node, finding.evidence.gpu


def _action(finding: Finding) -> int:
    return int(finding.fields.get("new", "0"), 16)


def _gone(ordered: list[Finding]) -> list[Finding]:
    """Call a GPU lost that the driver calls lost in both of its ways, so that verdict, reason and diagnosis agree."""
    lost = {_place(each) for each in ordered if each.signature == LOST}
    return [
        replace(each, label=Label("hardware/gpu_lost")) if each.signature == XID_79 and _place(each) in lost else each
        for each in ordered
    ]


def _named(ordered: list[Finding]) -> list[Finding]:
    """Give a GPU lost at probe the address from the record that began the message."""
    result: list[Finding] = []
    named: Finding | None = None
    for each in ordered:
        if each.signature == PROBE:
            named = each
        if each.signature == LOST and each.evidence.gpu is None and named and _follows(each, named):
            result.append(replace(each, evidence=replace(each.evidence, gpu=named.evidence.gpu)))
        else:
            result.append(each)
    return result


def _follows(lost: Finding, named: Finding) -> bool:
    late, early = lost.evidence, named.evidence
    if late.node != early.node or late.boot_id != early.boot_id:
        return False
    if late.sequence is not None and early.sequence is not None:
        return 0 < late.sequence - early.sequence <= PROBE_RECORDS
    return late.file == early.file and 0 < (late.line or 0) - (early.line or 0) <= PROBE_RECORDS
