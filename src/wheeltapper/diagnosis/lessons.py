"""What the record says about one more interruption: repetition convicts nobody, and makes a suspicion with numbers.

Two lessons change an answer. An application fault on a GPU on which other people's programs keep failing, too, becomes
a suspicion against the GPU. An end that nothing explains, in an hour or after a job's start to which such ends keep,
becomes a suspicion against the file system that they share. Both stay unconfirmed: no node leaves service for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from wheeltapper.attempt import Attempt
from wheeltapper.diagnosis.model import Diagnosis, Rejected, Suspect
from wheeltapper.evidence import Disposition, Evidence, Finding, Role, Source
from wheeltapper.labels import UNKNOWN, label
from wheeltapper.statistics.patterns import AFTER_S, HourPattern, StartPattern, clock
from wheeltapper.statistics.repetition import Repeated

APPLICATION = ("software/cuda_fault", "software/framework_crash", "software/user_code", "unknown/unknown")
"""Labels of ends that one application may cause by itself; a GPU's own fault has better evidence than repetition."""

UNEXPLAINED = frozenset({"unknown/unknown", "network/nccl_timeout"})
"""Labels that name no cause; only these give way to a pattern."""

PATTERN = "record.pattern"
REPETITION = "record.repetition"
"""The signatures of the two lessons."""

INSTEAD_OF = "instead_of="
"""Before the label that gave way to a pattern: what the pattern was learned from must still count to it."""

REPEATED_CONFIDENCE = 0.6
PATTERN_CONFIDENCE = 0.4
"""How sure a lesson makes us, on the scale of the diagnosis: as node evidence without proof, and as a hint."""


@dataclass(frozen=True, slots=True)
class Lessons:
    """What was learned up to now. ``half_hour`` is the clock by which ``hours`` were found, ``starts`` holds when the
    jobs that ``followed`` names have started (Unix seconds).
    """

    repeated: Mapping[tuple[str, str], Repeated] = field(default_factory=dict)
    hours: tuple[HourPattern, ...] = ()
    followed: tuple[StartPattern, ...] = ()
    starts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    half_hour: Callable[[float], tuple[int, int]] = clock


def reconsider(diagnosis: Diagnosis, attempt: Attempt, lessons: Lessons) -> Diagnosis:
    """Return *diagnosis* of *attempt* in the light of *lessons*; what the node itself has proved stays."""
    if diagnosis.confirmed:
        return diagnosis
    repeated = _repeated(diagnosis, lessons)
    if repeated is not None:
        return _suspect_gpu(diagnosis, repeated)
    sentence = _pattern(diagnosis, attempt, lessons)
    return diagnosis if sentence is None else _suspect_storage(diagnosis, sentence)


def _repeated(diagnosis: Diagnosis, lessons: Lessons) -> Repeated | None:
    if diagnosis.label not in APPLICATION:
        return None
    places = ((each.evidence.node, each.evidence.gpu) for each in diagnosis.chain)
    return next((lessons.repeated[place] for place in places if place in lessons.repeated), None)  # type: ignore[index]


def _suspect_gpu(diagnosis: Diagnosis, repeated: Repeated) -> Diagnosis:
    seen = Evidence(Source.RECORD, repeated.sentence, node=repeated.node, gpu=repeated.gpu)
    return _led_by(
        diagnosis,
        Finding(
            REPETITION,
            label("hardware/gpu_xid"),
            Role.ROOT,
            Disposition.INSPECT,
            seen,
            "repeated",
            "application faults repeat on this GPU whoever runs",
        ),
        REPEATED_CONFIDENCE,
        (Suspect(repeated.node, repeated.gpu, reason=repeated.sentence),),
    )


def _suspect_storage(diagnosis: Diagnosis, sentence: str) -> Diagnosis:
    return _led_by(
        diagnosis,
        Finding(
            PATTERN,
            label("resource/shared_fs_io"),
            Role.ROOT,
            Disposition.NONE,
            Evidence(Source.RECORD, sentence),
            f"{INSTEAD_OF}{diagnosis.label}",
            "ends like this keep to a time, as when storage is shared with something that runs then",
        ),
        PATTERN_CONFIDENCE,
        (),
    )


def _led_by(diagnosis: Diagnosis, lesson: Finding, confidence: float, suspects: tuple[Suspect, ...]) -> Diagnosis:
    root = diagnosis.root
    where = root.evidence.where if root is not None else ""
    named = diagnosis.symptom if diagnosis.symptom is not None or diagnosis.label == UNKNOWN else diagnosis.label
    return replace(
        diagnosis,
        label=lesson.label,
        detail=lesson.detail,
        symptom=named,
        disposition=lesson.disposition,
        confidence=confidence,
        chain=(lesson, *diagnosis.chain),
        suspects=suspects,
        rejected=(Rejected(diagnosis.label, where, "the record says more than this one end"), *diagnosis.rejected),
        sentence=f"{lesson.label}, a suspicion from the record: {lesson.evidence.text}.",
    )


def _pattern(diagnosis: Diagnosis, attempt: Attempt, lessons: Lessons) -> str | None:
    if diagnosis.label not in UNEXPLAINED or attempt.end is None:
        return None
    for start in lessons.followed:
        moments = lessons.starts.get(start.job, ())
        if start.label == diagnosis.label and any(0 <= attempt.end - at < AFTER_S for at in moments):
            return start.sentence
    half_hour = lessons.half_hour(attempt.end)[1] / 2
    for hour in lessons.hours:
        if hour.label == diagnosis.label and (half_hour - hour.hour) % 24 < 1:
            return hour.sentence
    return None
