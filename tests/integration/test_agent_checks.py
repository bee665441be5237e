"""The checks in the real agent: on their schedule, in a child where they may hang, over restarts and reloads."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.node import OTHER_CHECKS, Node, until
from tests.integration.site_check import SiteCheck
from wheeltapper.wire import Report
from wheeltapper_hooks.agent.markers import parse_marker

OF_IDLE_NODES = "of_idle_nodes=True"


def with_check(node: Node, **options) -> SiteCheck:
    check = SiteCheck(node.folder / "checks.d", **options)
    node.configure(checks={"dirs": [str(check.folder)]})
    return check


@pytest.mark.parametrize("may_hang", [False, True])
def test_what_a_check_finds_is_in_the_verdict_until_it_finds_it_no_more(node: Node, may_hang):
    check = with_check(node, may_hang=may_hang)
    node.start()
    assert node.state == "ok"
    check.tell("worn 90")
    until(lambda: node.state == "warn", "the warning")
    check.tell("cracked")
    until(lambda: node.state == "fail", "the fault")
    assert node.hook("prolog").returncode == 1
    assert node.slurm.reason.startswith("wheeltapper: hardware/power wheel=3 job=7 at=")
    check.tell("whole")
    until(lambda: node.state == "ok", "the end of it")


def test_what_jobs_look_like_is_judged_only_while_there_is_none(node: Node):
    check = with_check(node, options=OF_IDLE_NODES)
    node.start()
    node.hook("prolog", "7")
    check.tell("worn 90")
    seen = check.reads
    until(lambda: check.reads > seen + 2, "looks while the job is there")
    assert node.state == "ok"
    node.hook("epilog", "7")
    until(lambda: node.state == "warn", "the look at the idle node")

    node.hook("prolog", "8")
    check.tell("whole")
    seen = check.reads
    until(lambda: check.reads > seen + 2, "looks while another job is there")
    assert node.state == "warn", "it may explain how that job ends"
    node.hook("epilog", "8")
    until(lambda: node.state == "ok", "the end of it")


def test_a_check_of_the_time_after_jobs_looks_when_one_has_ended(node: Node):
    check = with_check(node, options='contexts=frozenset({Context("postflight")})')
    node.start()
    check.tell("worn 90")
    node.hook("prolog", "7")
    assert check.reads == 0
    node.hook("epilog", "7")
    until(lambda: node.state == "warn", "the look")
    assert check.reads == 1


def test_a_warning_keeps_no_job_off_and_says_what_was_seen(node: Node):
    check = with_check(node)
    check.tell("worn 90")
    node.start()

    assert node.state == "warn"
    assert node.hook("prolog").returncode == 0
    assert node.slurm.calls == []
    assert node.status()["sentence"] == "n1 is warn: hardware/thermal: the wheel is worn by 90 %"


def test_a_warning_whose_numbers_change_is_logged_once(node: Node):
    check = with_check(node)
    check.tell("worn 90")
    node.start()
    for percent in (91, 92, 93):
        check.tell(f"worn {percent}")
        seen = check.reads
        until(lambda seen=seen: check.reads > seen + 1, "a look")
    until(lambda: "93 %" in node.status()["verdict"]["findings"][0]["evidence"]["text"], "the newest number")

    assert node.log.count("A check found check.wheel") == 1


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("dark", "wheel cannot be read (it is dark)"),
        ("bug", "wheel cannot be read (wheel has a bug: KeyError: 'spoke' in "),
        ("stuck", "wheel cannot be read (the child did not end within 0.3 s)"),
    ],
)
def test_a_check_that_cannot_look_makes_the_verdict_unknown_and_keeps_no_job_off(node: Node, told, why):
    check = with_check(node, may_hang=told == "stuck", deadline_s=0.3)
    check.tell(told)
    node.start()

    assert node.state == "unknown"
    assert why in node.status()["sentence"]
    assert node.hook("prolog").returncode == 0
    seen = check.reads
    until(lambda: check.reads > seen + 2, "further tries")
    assert node.log.count("The probe wheel cannot be read") == 1
    assert "Traceback" not in node.log
    check.tell("whole")
    until(lambda: node.state == "ok", "the verdict once it can be read")


def test_a_fault_stands_until_its_check_can_look_again(node: Node):
    check = with_check(node)
    check.tell("cracked")
    node.start()
    assert node.state == "fail"
    check.tell("dark")
    until(lambda: "cannot be read: it is dark" in node.log, "the trouble")

    assert node.state == "fail"
    check.tell("whole")
    until(lambda: node.state == "ok", "the look that finds nothing")


def test_a_check_of_what_the_node_does_not_have_says_nothing(node: Node):
    check = with_check(node)
    check.tell("absent")
    node.start()

    assert node.state == "ok"
    assert check.reads > 0


def test_a_child_that_hangs_is_ended_and_no_two_are_there_at_once(node: Node):
    check = with_check(node, may_hang=True, deadline_s=0.3)
    check.tell("stuck")
    node.start()
    until(lambda: check.reads > 3, "several tries")
    alive = [pid for pid in (check.folder / "reads").read_text().split() if Path(f"/proc/{pid}").exists()]

    assert len(alive) <= 1
    counted = node.status()["checks"]
    assert counted["hung"] == counted["failed"] >= 3
    node.close()
    until(lambda: node.children() == [], "the end of the child that hung")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_neither_loses_nor_repeats_what_a_check_found(node: Node, how):
    check = with_check(node)
    check.tell("cracked")
    node.start()
    began = node.status()["verdict"]["findings"][0]["evidence"]["at"]
    node.stop(how)
    check.tell("dark")
    node.start()
    assert node.state == "fail", "it could not look again"
    check.tell("cracked")
    seen = check.reads
    until(lambda: check.reads > seen + 1, "a look")

    assert node.log.count("A check found check.wheel") == 1
    assert node.status()["verdict"]["findings"][0]["evidence"]["at"] == began


def test_what_was_mended_while_no_agent_ran_does_not_come_back(node: Node):
    check = with_check(node)
    check.tell("cracked")
    node.start()
    node.stop()
    check.tell("whole")
    node.start()

    assert node.state == "ok"


def test_sighup_takes_new_limits_and_checks_that_are_off(node: Node):
    check = with_check(node, every_s=0.05)
    check.tell("worn 90")
    node.start()
    assert node.state == "warn"
    node.configure(**{"checks.limits.wheel": {"worn_percent": 95.0}})
    node.signal(signal.SIGHUP)
    until(lambda: node.state == "ok", "the new limit")
    node.configure(**{"checks.limits.wheel": {"worn_percent": 10.0}})
    node.signal(signal.SIGHUP)
    until(lambda: node.state == "warn", "the limit after it")
    node.configure(checks={"off": [*OTHER_CHECKS, "wheel"]}, **{"checks.limits.wheel": {}})
    node.signal(signal.SIGHUP)
    until(lambda: node.state == "ok", "the end of a check that is off")
    assert node.log.count("A check finds no more check.wheel") == 2


def test_sighup_with_a_wrong_limit_changes_nothing(node: Node):
    check = with_check(node)
    check.tell("worn 90")
    node.start()
    node.configure(**{"checks.limits.wheel": {"worn_parts": 1}})
    node.signal(signal.SIGHUP)
    until(lambda: "The old configuration stays in force" in node.log, "the refusal")

    assert "checks.limits.wheel.worn_parts: there is no such key" in node.log
    assert node.state == "warn"


def test_a_wrong_limit_stops_the_start_and_names_the_key(node: Node):
    with_check(node)
    node.configure(**{"checks.limits.wheel": {"worn_percent": "much"}})
    node.start()

    assert node.agent.wait(10) == 2
    assert "checks.limits.wheel.worn_percent" in node.log


def test_fewer_gpus_on_the_bus_than_expected_fail_the_node(node: Node):
    sysfs = node.folder / "sys"
    devices = sysfs / "bus/pci/devices"
    for address in ("0000:3b:00.0", "0000:86:00.0"):
        (devices / address).mkdir(parents=True)
        (devices / address / "vendor").write_text("0x10de\n")
        (devices / address / "class").write_text("0x030200\n")
    gpus = ["0000:3b:00", "0000:86:00"]
    node.configure(node={"expected_gpus": 2, "gpus": gpus}, agent={"sysfs": str(sysfs)})
    node.start()
    assert node.state == "ok"
    shutil.rmtree(devices / "0000:86:00.0")
    node.signal(signal.SIGHUP)
    until(lambda: node.state == "fail", "the verdict, since a reload looks at once")

    assert node.hook("prolog").returncode == 1
    assert node.slurm.reason.startswith("wheeltapper: hardware/gpu_lost expected=2 found=1 gpu=0000:86:00 job=7 at=")


def report_of(service) -> Report:
    (report,) = service.heard(Report)
    return report


def test_a_jobs_report_holds_the_versions_of_its_node(node: Node, serve):
    service = serve()
    node.start()
    node.hook("epilog")

    assert report_of(service).versions["kernel"] == Path("/proc/sys/kernel/osrelease").read_text().strip()


@pytest.mark.parametrize(("began_in_s", "role"), [(0, "root"), (90, "confirm")])
def test_what_a_check_warned_of_before_a_job_came_is_only_a_witness_in_its_report(node: Node, serve, began_in_s, role):
    """A report reaches back to a minute before the stay; a stay that begins later makes the warning older than that."""
    with_check(node).tell("worn 90")
    service = serve()
    node.start()
    node.hook("prolog")
    began = parse_marker(node.marker("7").read_text())
    node.marker("7").write_text(str(replace(began, uptime=began.uptime + began_in_s)))
    node.hook("epilog")

    assert {each.signature: each.role.value for each in report_of(service).findings} == {"check.wheel": role}


CPU_STAT = "nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time {stopped_ns}\n"


@pytest.mark.parametrize("throttled", [900, 100])
def test_a_jobs_report_says_whether_it_was_throttled_with_the_numbers(node: Node, serve, throttled):
    sysfs = node.folder / "sys"
    cgroup = sysfs / "fs/cgroup/cpu/slurm/uid_1000/job_7"
    cgroup.mkdir(parents=True)
    (cgroup / "cpu.cfs_quota_us").write_text("50000\n")
    (cgroup / "cpu.cfs_period_us").write_text("100000\n")
    (cgroup / "cpu.stat").write_text(CPU_STAT.format(periods=0, throttled=0, stopped_ns=0))
    node.configure(agent={"sysfs": str(sysfs)})
    service = serve()
    node.write_verdict("ok")
    node.hook("prolog")
    node.start()
    stopped_ns = throttled * 50_000_000
    (cgroup / "cpu.stat").write_text(CPU_STAT.format(periods=1000, throttled=throttled, stopped_ns=stopped_ns))
    node.hook("epilog")

    found = [each for each in report_of(service).findings if each.label == "resource/cpu_throttle"]
    if throttled == 100:
        assert found == []
        return
    (only,) = found
    assert (only.role.value, only.detail) == ("root", "throttled=90%")
    assert "by the limit of 0.5 CPUs in 900 of 1000 periods" in only.evidence.text
