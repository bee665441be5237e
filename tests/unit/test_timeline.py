"""One timeline over ranks, nodes and scheduler."""

from __future__ import annotations

from tests.unit.evidence import END, kernel, log, watchdog, xid
from tests.unit.inputs.given import of
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.diagnosis.timeline import Event, timeline


def events(*groups) -> tuple[Event, ...]:
    findings = [each for group in groups for each in group]
    return timeline(findings, diagnose(findings, None, window_s=1800))


def test_root_and_symptom_are_marked_and_ranks_are_one_event():
    told = events(xid(79, at=END - 60), log("1970-01-01 02:46:30 start", *watchdog(0, 1, 3)))
    assert [(each.label, each.part, each.count, each.ranks) for each in told] == [
        ("hardware/gpu_xid xid=79", "root", 1, ()),
        ("network/nccl_timeout", "symptom", 3, (0, 1, 3)),
    ]


def test_clocks_of_two_nodes_leave_the_order_open_and_one_clock_does_not():
    told = events(xid(79, node="n1", at=END - 60), xid(48, node="n2", at=END - 59.6))
    assert [each.together for each in told] == [False, True]
    told = events(xid(79, node="n1", at=END - 60), xid(48, node="n1", at=END - 59.6))
    assert [each.together for each in told] == [False, False]
    told = events(xid(79, node="n1", at=END - 60), xid(48, node="n2", at=END - 58))
    assert [each.together for each in told] == [False, False]


def test_the_same_words_much_later_are_another_event():
    told = events(xid(13, at=END - 1000), xid(13, at=END - 10, sequence=2))
    assert [each.at for each in told] == [END - 1000, END - 10]


def test_what_says_nothing_is_left_out():
    assert events(kernel("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15")) == ()


def test_records_without_a_time_come_last():
    sacct = "JobID|State|ExitCode|NodeList\n12|NODE_FAIL|0:1|n[1-2]\n"
    told = events(of({"sacct.txt": sacct}).findings, xid(79, at=END - 60))
    assert [(each.at, each.where) for each in told] == [(END - 60, "n2 kernel log"), (None, "sacct.txt:2")]
