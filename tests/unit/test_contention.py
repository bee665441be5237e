"""What a job lacked, from the counters of its cgroup: shares over time, events, and what there was none of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.make import BOOT, attempt, logged, xid79
from wheeltapper.checks.model import Fault, Host
from wheeltapper.config import ContentionSection
from wheeltapper.contention import Sample, judge
from wheeltapper.contention.model import CpuTime, Memory, Pages, Stall
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.evidence import Disposition, Evidence, Role, Source

HOST = Host("n1", BOOT)
LIMITS = ContentionSection()
QUIET = Sample(1_000.0, 0.0, "/job_12", stalls={"cpu": Stall(0, 0), "io": Stall(0, 0)})

QUIET_SEEN = Evidence(Source.CHECK, "", 1_050.0, "n1", BOOT)


def later(sample, seconds, **changes):
    return replace(sample, at=sample.at + seconds, clock=sample.clock + seconds, **changes)


def limited(periods=0, throttled=0, stopped_s=0.0, cpus=2.0, path="/sys/fs/cgroup/job_12"):
    return CpuTime(path, periods, throttled, stopped_s, cpus, 0.1)


def told(*samples):
    return {each.signature: each for each in judge(samples, HOST, LIMITS)}


def test_a_job_that_its_limit_stopped_is_named_with_the_numbers():
    before = replace(QUIET, cpu=(limited(),))

    found = told(before, later(before, 900.0, cpu=(limited(9_000, 6_300, 800.0),)))

    assert found.keys() == {"contention.throttled", "contention.cleared.io"}
    throttled = found["contention.throttled"]
    assert (throttled.label, throttled.role, throttled.detail) == (
        "resource/cpu_throttle",
        Role.ROOT,
        "throttled=70%",
    )
    assert throttled.evidence.text == (
        "/sys/fs/cgroup/job_12 was stopped by the limit of 2 CPUs in 6300 of 9000 periods; over 900 s its processors"
        " stood still for 800 s"
    )
    assert (throttled.evidence.at, throttled.evidence.node, throttled.evidence.boot_id) == (1_900.0, "n1", BOOT)


def test_a_limit_above_the_job_stops_it_as_well():
    before = replace(QUIET, cpu=(limited(cpus=None), limited(path="/sys/fs/cgroup/pod")))
    after = later(before, 900.0, cpu=(limited(cpus=None), limited(9_000, 6_300, 800.0, path="/sys/fs/cgroup/pod")))

    assert "contention.throttled" in told(before, after)


def test_throttling_that_began_only_five_minutes_ago_is_seen():
    start = replace(QUIET, cpu=(limited(),))
    middle = later(start, 1_500.0, cpu=(limited(15_000),))
    end = later(middle, 299.0, cpu=(limited(18_000, 2_900, 250.0),))

    assert told(start, middle, end)["contention.throttled"].detail == "throttled=97%"


@pytest.mark.parametrize(
    ("cpu", "why"),
    [
        (limited(599, 599, 50.0), "less than a minute of work"),
        (limited(9_000, 5_300, 800.0), "fewer than six periods in ten"),
        (limited(9_000, 9_000, 44.0), "stopped for moments only"),
    ],
)
def test_some_throttling_is_no_finding(cpu, why):
    before = replace(QUIET, cpu=(limited(),))

    assert "contention.throttled" not in told(before, later(before, 900.0, cpu=(cpu,))), why


def test_half_of_the_threshold_is_neither_found_nor_cleared():
    before = replace(QUIET, cpu=(limited(),), stalls={"io": Stall(0, 0)})
    after = later(before, 900.0, cpu=(limited(9_000, 4_000, 300.0),), stalls={"io": Stall(400.0, 300.0)})

    assert told(before, after) == {}


def test_a_job_that_lacked_nothing_is_cleared_with_the_numbers():
    before = replace(QUIET, cpu=(limited(),))

    found = told(before, later(before, 900.0, cpu=(limited(9_000, 3, 0.1),)))

    assert {(name, each.role, each.label, each.detail) for name, each in found.items()} == {
        ("contention.cleared.cpu", Role.BENIGN, "resource/cpu_throttle", "throttled=0%"),
        ("contention.cleared.io", Role.BENIGN, "resource/shared_fs_io", "stalled=0%"),
    }
    assert "in 3 of 9000 periods" in found["contention.cleared.cpu"].evidence.text


@pytest.mark.parametrize("samples", [(), (QUIET,), (QUIET, later(QUIET, 900.0))])
def test_what_was_not_counted_is_not_cleared(samples):
    assert told(*samples) == {}


def test_a_minute_is_needed_to_clear():
    before = replace(QUIET, cpu=(limited(),))

    assert told(before, later(before, 59.0, cpu=(limited(590),))) == {}


@pytest.mark.parametrize(("resource", "label"), [("io", "resource/shared_fs_io"), ("cpu", "resource/cpu_throttle")])
def test_a_job_that_stood_still_half_of_the_time_lacked_it(resource, label):
    before = replace(QUIET, node_stalls={resource: Stall(0, 0)})
    after = later(before, 900.0, stalls={resource: Stall(600.0, 460.0)}, node_stalls={resource: Stall(90, 9)})

    found = told(before, after)[f"contention.stalled_{resource}"]

    assert (found.label, found.detail) == (label, "stalled=51%")
    assert found.evidence.text.endswith("51 % of 900 s, the whole machine 1 %")


def test_without_counts_of_the_cgroup_the_machines_are_a_hint():
    before = replace(QUIET, stalls={}, node_stalls={"io": Stall(0, 0)})
    after = later(before, 900.0, node_stalls={"io": Stall(600.0, 460.0)})

    assert told(before, after)["contention.node.stalled_io"].detail == "stalled=51%"


@pytest.mark.parametrize(
    ("refusals", "whose"), [(3, "its own limit, limit 8.0 GiB, peak 8.0 GiB"), (0, "a limit that is not its own")]
)
def test_a_killed_process_is_told_with_whose_limit_it_was(refusals, whose):
    before = replace(QUIET, memory=Memory(0, 0))
    after = later(before, 9.0, memory=Memory(2, refusals, 8 << 30, 8 << 30))

    found = told(before, after)["contention.oom_kill"]

    assert (found.label, found.detail) == ("resource/host_oom", "oom_kill=2")
    assert f"were killed at {whose}" in found.evidence.text


def test_refused_threads_are_counted():
    before = replace(QUIET, pids_refused=1)

    assert told(before, later(before, 9.0, pids_refused=5))["contention.pids"].detail == "refused=4"


@pytest.mark.parametrize(
    ("misses", "found"), [(5_000_000, True), (3_000_000, False), (900_000, False)], ids=["half", "a third", "few"]
)
def test_memory_on_the_wrong_node_counts_by_share_and_amount(misses, found):
    before = replace(QUIET, pages=Pages(10, 10))
    hits = 5_000_000 if misses > 900_000 else 1_000
    after = later(before, 900.0, pages=Pages(10 + hits + (3_000_000 if misses == 3_000_000 else 0), 10 + misses))

    assert ("contention.node.misplaced" in told(before, after)) is found


def waited():
    return logged("network/nccl_timeout", role=Role.SYMPTOM)


def test_the_diagnosis_of_a_wait_names_the_throttled_node():
    before = replace(QUIET, at=1_000.0, cpu=(limited(),))
    found = judge((before, later(before, 90.0, cpu=(limited(900, 800, 90.0),))), HOST, LIMITS)

    told_why = diagnose([waited(), *found], attempt(), window_s=1800)

    assert (told_why.label, told_why.symptom) == ("resource/cpu_throttle", "network/nccl_timeout")
    assert told_why.detail == "throttled=89%"


def test_the_diagnosis_of_a_wait_says_what_was_not_lacking():
    before = replace(QUIET, at=1_000.0, cpu=(limited(),))
    found = judge((before, later(before, 90.0, cpu=(limited(900, 1, 0.1),))), HOST, LIMITS)
    elsewhere = [replace(each, evidence=replace(each.evidence, node="n2")) for each in found]

    told_why = diagnose([waited(), *found, *elsewhere], attempt(), window_s=1800)

    assert told_why.label == "network/nccl_timeout"
    cleared = {each.label: each.reason for each in told_why.rejected}
    assert cleared.keys() == {"resource/cpu_throttle", "resource/shared_fs_io"}
    assert "in 1 of 900 periods" in cleared["resource/cpu_throttle"]
    assert cleared["resource/cpu_throttle"].endswith("(likewise on 1 other node)")


def test_a_busy_machine_does_not_explain_a_wait_of_a_job_that_was_served():
    before = replace(QUIET, at=1_000.0, cpu=(limited(),))
    cleared = judge((before, later(before, 90.0, cpu=(limited(900, 1, 0.1),))), HOST, LIMITS)
    busy = replace(logged("resource/cpu_throttle"), signature="check.load")
    busy = replace(busy, evidence=replace(cleared[0].evidence, text="load 400 on 64 processors"))

    assert diagnose([waited(), busy], attempt(), window_s=1800).label == "resource/cpu_throttle"
    told_why = diagnose([waited(), busy, *cleared], attempt(), window_s=1800)
    assert told_why.label == "network/nccl_timeout"
    assert any("the job's own counters on this node clear it" in each.reason for each in told_why.rejected)


@pytest.mark.parametrize(
    "label",
    ["resource/disk_full", "software/env_mismatch", "hardware/storage", "hardware/host_memory", "unknown/unknown"],
)
def test_a_state_of_the_machine_that_jobs_can_live_with_explains_no_end(label):
    state = replace(logged(label), signature="check.some")
    state = replace(state, evidence=replace(QUIET_SEEN, text="/var has 4 % left"))

    assert diagnose([waited(), state], attempt(), window_s=1800).label == "network/nccl_timeout"
    assert diagnose([logged("software/user_code"), state], attempt(), window_s=1800).label == "software/user_code"


def test_a_warning_of_the_machine_is_no_consequence_of_a_fault():
    warning = replace(
        logged("resource/disk_full"), signature="check.fs_full", evidence=replace(QUIET_SEEN, text="full")
    )

    assert diagnose([xid79("n1", at=1_040.0), warning], attempt(), window_s=1800).symptom is None


def test_a_fault_begins_at_its_own_device_and_not_at_anothers_warning():
    worn = Fault("drive_health", "hardware/storage", "worn").seen(HOST, 1_010.0, "nvme0 is worn", device="nvme0")
    broken = Fault("fs_read_only", "hardware/storage", "stopped", Disposition.INSPECT)

    told_why = diagnose([worn, broken.seen(HOST, 1_050.0, "sda2", device="sda2")], attempt(), window_s=1800)

    assert [each.evidence.text for each in told_why.chain] == ["sda2"]
    assert told_why.confirmed
