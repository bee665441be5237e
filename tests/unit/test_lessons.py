"""What the record says changes an answer only where the evidence of the end itself proves nothing."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.make import attempt, diagnosis, logged, xid79
from wheeltapper.config import PolicySection
from wheeltapper.diagnosis.lessons import Lessons, reconsider
from wheeltapper.evidence import Source
from wheeltapper.policy.decide import decide
from wheeltapper.policy.model import History, Payer
from wheeltapper.statistics.patterns import HourPattern, StartPattern
from wheeltapper.statistics.repetition import Repeated

GPU = Repeated("n2", "0000:3b:00", 4, 3, 9, 1024, 1e-7)
LESSONS = Lessons(repeated={("n2", "0000:3b:00"): GPU})


def application_fault():
    kernel = replace(xid79(), signature="nvidia.xid.31", label="software/cuda_fault", detail="xid=31")
    return diagnosis("software/cuda_fault", kernel)


def test_an_application_fault_on_a_gpu_that_others_fail_on_is_a_suspicion_that_excludes_the_node_and_drains_nothing():
    found = reconsider(application_fault(), attempt(), LESSONS)

    assert (found.label, found.confirmed, found.symptom) == ("hardware/gpu_xid", False, "software/cuda_fault")
    assert found.root.evidence.source is Source.RECORD
    assert not found.root.convicts
    assert "4 different jobs of 3 users" in found.sentence
    assert found.rejected[0].label == "software/cuda_fault"
    decided = decide(found, attempt(), History(), PolicySection(), 0.0)
    assert decided.quarantine == ()
    assert (decided.job.requeue, decided.job.exclude, decided.job.payer) == (True, ("n2",), Payer.INFRASTRUCTURE)


def test_what_the_node_has_proved_and_what_is_elsewhere_stay():
    proved = diagnosis("hardware/gpu_xid", xid79(), nodes=("n2",), confirmed=True)
    elsewhere = diagnosis("software/cuda_fault", replace(application_fault().chain[0], evidence=xid79("n9").evidence))
    explained = diagnosis("software/oom", xid79())

    for each in (proved, elsewhere, explained):
        assert reconsider(each, attempt(), LESSONS) == each


def test_an_end_without_a_cause_in_the_hour_of_such_ends_is_a_suspicion_against_shared_storage():
    hour = HourPattern("unknown/unknown", 23.5, 12, 20, 0.8, 1e-6)
    lessons = Lessons(hours=(hour,), half_hour=lambda at: (0, int(at)))

    for half_hour in (47.0, 0.0):
        found = reconsider(diagnosis("unknown/unknown"), attempt(end=half_hour), lessons)
        assert (found.label, found.confidence) == ("resource/shared_fs_io", 0.4)
        assert found.root.detail == "instead_of=unknown/unknown"
        assert hour.sentence in found.sentence
    for half_hour in (1.0, 46.0):
        assert reconsider(diagnosis("unknown/unknown"), attempt(end=half_hour), lessons).label == "unknown/unknown"
    assert (
        reconsider(diagnosis("software/oom", logged("software/oom")), attempt(end=0.0), lessons).label == "software/oom"
    )


def test_an_end_just_after_the_start_of_the_job_that_such_ends_follow():
    start = StartPattern("network/nccl_timeout", "backup", 9, 12, 1.5, 1e-5)
    lessons = Lessons(followed=(start,), starts={"backup": (1000.0,)})

    after = reconsider(diagnosis("network/nccl_timeout"), attempt(end=1600.0), lessons)
    before = reconsider(diagnosis("network/nccl_timeout"), attempt(end=900.0), lessons)

    assert (after.label, after.symptom) == ("resource/shared_fs_io", "network/nccl_timeout")
    assert before.label == "network/nccl_timeout"
