"""What may be the root of an attempt's end, in the order of belief, and what was set aside with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.diagnosis import cleared
from wheeltapper.diagnosis.depth import ENDING, FULL, WAITS, Depth, depth
from wheeltapper.diagnosis.exceptions import Exceptions
from wheeltapper.diagnosis.known import COMPLETED
from wheeltapper.diagnosis.model import Rejected
from wheeltapper.evidence import Disposition, Evidence, Finding, Role, Source
from wheeltapper.labels import Label, family

ENDINGS: Mapping[Ending, tuple[str, str]] = {
    Ending.TIME_LIMIT: ("scheduler/time_limit", "the time limit was reached"),
    Ending.CANCELLED: ("scheduler/cancelled", "the job was cancelled"),
    Ending.PREEMPTED: ("scheduler/preempted", "the job was preempted"),
    Ending.NODE_FAIL: ("hardware/node_down", "the scheduler lost a node of the job"),
    Ending.OUT_OF_MEMORY: ("resource/host_oom", "the scheduler counts it as out of memory"),
}
"""What the scheduler's word for the end means when nothing deeper is known."""

NVLINK_ECHO_S = 5.0
"""Neighbours of a GPU that dies report their broken links within five seconds."""

BACK = {
    "link.down": "link.up",
    "fs.lustre.lost": "fs.lustre.restored",
    "fs.nfs.silent": "fs.nfs.answers",
    "fs.ceph.hung": "fs.ceph.back",
}
"""Signatures of trouble that passes, and of the line that says that it passed."""

APPLICATION = frozenset({"nvidia.xid.13", "nvidia.xid.31"})
"""Faults of the application's own kernels, as the driver reports them."""

SWITCH_TIMEOUT = "nvidia.xid.109"

SWITCH_S = 60.0
"""Seconds within which a kernel that failed makes the switch of contexts time out."""

BROKEN = frozenset({"python.connection", "nccl.system_error", "nccl.ib.flushed"})
"""Connections that broke without naming the other end: the weakest of all symptoms."""

LAST_WORDS = ("last_words.", "kubernetes.exited", "ending.failed", "nccl.connect.retry")
"""How the signatures begin that say only that something failed, or that it was tried again."""

CONTROLLER = "slurmctld."
"""How the signatures of the controller's own log begin."""

GPU_FAILURES = frozenset({"software/cuda_fault", "software/framework_crash", "network/nccl_timeout"})
"""What a log says where a kernel on the GPU may have failed: by name, in native code, or on a rank it waited for."""

STEP_CANCELLED = "slurm.cancelled"
STEP_ENDED = "slurm.step.ended"

SLOWING = frozenset(
    {
        "hardware/thermal",
        "hardware/power",
        "resource/cpu_throttle",
        "resource/memory_bandwidth",
        "resource/pcie_bandwidth",
    }
)
"""What a check of the node finds and what makes ranks late, but ends no program by itself."""

EXPLAINED = frozenset({"scheduler/quota", "scheduler/maintenance"})
"""Why the scheduler ended the job, where it told the job only that it ended it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A finding that may be the root. The smallest ``rank`` is."""

    finding: Finding
    depth: Depth
    position: int

    @property
    def rank(self) -> tuple[int, int]:
        """Depth first, then the place in the story."""
        return self.depth, self.position


@dataclass(frozen=True, slots=True)
class _Scene:
    """What all findings together say, worked out once."""

    told: Sequence[Finding]
    depths: Sequence[Depth]
    cancelled: bool
    ended_well: bool
    """A log says that its run went to its end, and no log says anything else."""
    ends: Mapping[str, int]
    """For each log the line with which the scheduler began to end the job."""
    waited_for_network: bool
    exceptions: Exceptions
    failed: bool
    """A log of the job says that something failed."""
    failed_at: float | None
    """When the job first said that something failed."""
    otherwise_explained: bool
    cleared: Mapping[tuple[str | None, Label], Finding]
    """By node and label, that the job's own counters show none of it."""
    failed_without_gpu: bool
    """The job's log ends in an exception, and no line of it speaks of a GPU."""
    failed_by_itself: bool
    """The job's log says plainly what went wrong, and no collective ran into its timeout."""


def ending(attempt: Attempt | None) -> tuple[Finding, ...]:
    """Return the scheduler's word for the end of *attempt* as a finding, where it is a cause at all."""
    if attempt is None or attempt.ending not in ENDINGS:
        return ()
    label, summary = ENDINGS[attempt.ending]
    text = f"ended as {attempt.ending.value}{f' ({attempt.reason})' if attempt.reason else ''}"
    evidence = Evidence(Source.SCHEDULER, text, at=attempt.end, node=attempt.failed_node)
    return (
        Finding(f"{ENDING}{attempt.ending.value}", Label(label), Role.ROOT, Disposition.NONE, evidence, "", summary),
    )


def candidates(told: Sequence[Finding], attempt: Attempt | None) -> tuple[list[Candidate], list[Rejected]]:
    """Return the candidates among the findings *told* in the order of the story, and what was set aside."""
    scene = _scene(told, attempt)
    found: list[Candidate] = []
    set_aside: dict[tuple[Label, str], Rejected] = {}
    for number, (each, how_deep) in enumerate(zip(told, scene.depths, strict=True)):
        if how_deep is Depth.NONE:
            continue
        reason = _reason_against(each, how_deep, scene)
        if reason is None:
            found.append(Candidate(each, how_deep, _position(each, how_deep, number, told)))
        elif each.role is Role.ROOT:
            set_aside.setdefault((each.label, reason), Rejected(each.label, each.evidence.where, reason))
    return sorted(found, key=lambda candidate: candidate.rank), list(set_aside.values())


def _scene(told: Sequence[Finding], attempt: Attempt | None) -> _Scene:
    depths = [depth(each) for each in told]
    ends: dict[str, int] = {}
    for each in told:
        seen = each.evidence
        if "when" in each.fields and seen.file is not None and seen.line is not None:
            ends[seen.file] = min(ends.get(seen.file, seen.line), seen.line)
    return _Scene(
        told=told,
        depths=depths,
        cancelled=attempt is not None and attempt.ending is Ending.CANCELLED and not _made_room(told),
        ended_well=ended_well(told),
        ends=ends,
        waited_for_network=any(
            each.evidence.source is Source.JOB_LOG and family(each.label) == "network" and each.role is not Role.BENIGN
            for each in told
        ),
        exceptions=Exceptions.of(told),
        failed=any(
            each.evidence.source is Source.JOB_LOG and each.role not in {Role.BENIGN, Role.CONFIRM} for each in told
        ),
        failed_at=_failed_at(told),
        cleared=cleared.by_place(told),
        failed_without_gpu=Depth.EXCEPTION in depths and not _speaks_of_gpu(told),
        otherwise_explained=Depth.EXCEPTION in depths or Depth.ENDING in depths,
        failed_by_itself=any(
            how_deep is Depth.LOG and each.evidence.source is Source.JOB_LOG
            for each, how_deep in zip(told, depths, strict=True)
        )
        and not any(each.label == "network/nccl_timeout" for each in told),
    )


def _speaks_of_gpu(told: Sequence[Finding]) -> bool:
    return any(
        each.evidence.source is Source.JOB_LOG and (each.label in GPU_FAILURES or family(each.label) == "hardware")
        for each in told
    )


def _made_room(told: Sequence[Finding]) -> bool:
    """True when it was root who cancelled the job, on a node that is down for maintenance."""
    by_root = any(each.label == "scheduler/cancelled" and each.fields.get("by") == "0" for each in told)
    return by_root and any(each.label == "scheduler/maintenance" and each.role is Role.ROOT for each in told)


def ended_well(told: Sequence[Finding]) -> bool:
    """True when a job's log says that its run went to its end, and no log of it says anything else."""
    logged = [each for each in told if each.evidence.source is Source.JOB_LOG]
    return any(each.signature == COMPLETED for each in logged) and all(each.role is Role.BENIGN for each in logged)


def _position(finding: Finding, how_deep: Depth, number: int, told: Sequence[Finding]) -> int:
    """Return the place of *finding* among those of its depth: its place in the story, with a few exceptions."""
    if how_deep is Depth.CONVICTED and _is_link_echo(finding, told):
        return number + len(told)
    if how_deep is Depth.ENDING and finding.evidence.line is None:
        return number + len(told)  # the same word as a line of the log is better evidence than as a state
    if how_deep is Depth.ENDING and finding.label in EXPLAINED:
        return number - 2 * len(told)
    if how_deep is Depth.ENDING and finding.signature.startswith(CONTROLLER):
        return number - len(told)  # logs of jobs and tables of states only repeat it
    if how_deep is Depth.SYMPTOM and finding.signature.startswith(LAST_WORDS):
        return number + 2 * len(told)  # they say no more than that it failed
    if how_deep is Depth.SYMPTOM and finding.signature in BROKEN:
        return number + len(told)  # somebody else's end broke it
    if how_deep is Depth.SYMPTOM and finding.label == "network/transport":
        return number - len(told)  # it names a pair of ends; a timeout names nothing
    return number


def _is_link_echo(finding: Finding, told: Sequence[Finding]) -> bool:
    """True for a broken NVLink while a GPU of the node died of its own fault: neighbours report the dead one."""
    seen = finding.evidence
    return finding.label == "hardware/nvlink" and any(
        each.convicts
        and each.label != "hardware/nvlink"
        and each.evidence.node == seen.node
        and each.evidence.gpu is not None
        and (each.evidence.at is None or seen.at is None or abs(each.evidence.at - seen.at) <= NVLINK_ECHO_S)
        for each in told
    )


def _reason_against(finding: Finding, how_deep: Depth, scene: _Scene) -> str | None:
    if scene.cancelled and how_deep is not Depth.CONVICTED and finding.label != "scheduler/cancelled":
        return "the job was cancelled, and only proven hardware faults weigh more"
    if scene.ended_well and how_deep is not Depth.CONVICTED:
        return "the run went to its end"
    if how_deep not in {Depth.CONVICTED, Depth.MACHINE, Depth.ENDING} and _is_after_the_end(finding, scene):
        return "it was written after the scheduler had begun to end the job"
    if how_deep is Depth.HINT and (witness := scene.cleared.get((finding.evidence.node, finding.label))):
        return f"the job's own counters on this node clear it: {witness.evidence.text}"
    if how_deep is Depth.NODE and (passed := _reason_against_node(finding, scene)):
        return passed
    if how_deep is not Depth.CONVICTED and (echoed := _what_it_echoes(finding, scene.told)):
        return echoed
    if finding.signature.startswith(FULL) and not scene.failed:
        return "no log of the job says that anything failed"
    if finding.evidence.source is Source.CHECK and finding.label in SLOWING and scene.failed_by_itself:
        return "it makes ranks late; nobody waited for one until a timeout, and the job's log says what went wrong"
    if how_deep in {Depth.LOG, Depth.EXCEPTION}:
        return scene.exceptions.reason_against(finding, how_deep)
    return None


def _what_it_echoes(finding: Finding, told: Sequence[Finding]) -> str | None:
    if finding.signature == STEP_CANCELLED and _srun_ended(finding, told):
        return "srun cancelled the step itself, because one of its tasks had failed"
    if finding.signature == SWITCH_TIMEOUT and _is_of_application(finding, told):
        return "the application's own fault on this GPU came just before it"
    return None


def _srun_ended(finding: Finding, told: Sequence[Finding]) -> bool:
    """True for the end of a step that srun had announced just above."""
    return any(
        each.signature == STEP_ENDED
        and each.evidence.file == finding.evidence.file
        and (each.evidence.line or 0) < (finding.evidence.line or 0)
        for each in told
    )


def _is_of_application(finding: Finding, told: Sequence[Finding]) -> bool:
    """True for a context switch that timed out because the application's kernel had failed on the same GPU."""
    seen = finding.evidence
    return any(
        each.signature in APPLICATION
        and (each.evidence.node, each.evidence.gpu, each.evidence.boot_id) == (seen.node, seen.gpu, seen.boot_id)
        and (each.evidence.sequence or each.evidence.line or 0) <= (seen.sequence or seen.line or 0)
        and (each.evidence.at is None or seen.at is None or 0 <= seen.at - each.evidence.at <= SWITCH_S)
        for each in told
    )


def _is_after_the_end(finding: Finding, scene: _Scene) -> bool:
    seen = finding.evidence
    return seen.file is not None and seen.file in scene.ends and (seen.line or 0) > scene.ends[seen.file]


def _reason_against_node(finding: Finding, scene: _Scene) -> str | None:
    if family(finding.label) == "network" or finding.label in WAITS:
        return _reason_against_link(finding, scene)
    if finding.label == "software/cuda_fault" and scene.failed_without_gpu:
        return "the job's log says what the program failed of, and nothing of its GPU"
    return None


def _reason_against_link(finding: Finding, scene: _Scene) -> str | None:
    if finding.label in WAITS and _came_back(finding, scene.told, before=scene.failed_at):
        return "it was over before anything failed"
    if scene.waited_for_network:
        return None
    if scene.otherwise_explained:
        return "nothing in the job's log waited for the network"
    if _came_back(finding, scene.told):
        return "the link came back, and nothing in the job's log waited for the network"
    return None


def _came_back(finding: Finding, told: Sequence[Finding], before: float | None = None) -> bool:
    seen = finding.evidence
    return any(
        each.signature == BACK.get(finding.signature, "link.up")
        and each.evidence.node == seen.node
        and each.fields.get("target") == finding.fields.get("target")
        and (each.evidence.sequence or each.evidence.line or 0) > (seen.sequence or seen.line or 0)
        and (before is None or (each.evidence.at or 0.0) < before)
        for each in told
    )


def _failed_at(told: Sequence[Finding]) -> float | None:
    """Return when the job began to fail: a timeout began to wait as long ago as it says."""
    moments = [
        each.evidence.at - float(each.fields.get("ran_ms", 0)) / 1000
        for each in told
        if each.evidence.source is Source.JOB_LOG and each.evidence.at is not None and each.role is not Role.BENIGN
    ]
    return min(moments, default=None)
