"""Kernel records and saved kernel logs become findings; other people's words do not."""

from __future__ import annotations

import io
from datetime import datetime, timezone

import pytest

from wheeltapper import catalogue
from wheeltapper.evidence import Source
from wheeltapper.kmsg import parse_record
from wheeltapper.scan import scan_kernel, scan_kernel_log
from wheeltapper.scan.inputs import kind_of
from wheeltapper.scan.kernel import looks_like_kernel, parse_line

CATALOGUE = catalogue.load()
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, name=python, GPU has fallen off the bus."


def of_record(priority: int, text: str = XID):
    record = parse_record(f"{priority},41,9000000,-;{text}")
    assert record is not None
    return scan_kernel(record, CATALOGUE, node="n2", boot_id="b", at=50.0)


def of_log(text: str, **more):
    return list(scan_kernel_log(io.BytesIO(text.encode()), CATALOGUE, file="dmesg.log", zone=timezone.utc, **more))


def test_kernel_record_convicts_the_gpu_that_it_names():
    (found,) = of_record(3)
    seen = found.evidence
    assert found.convicts
    assert (found.label, found.detail, found.signature) == ("hardware/gpu_xid", "xid=79", "nvidia.xid.79")
    assert (seen.node, seen.boot_id, seen.sequence, seen.gpu, seen.at) == ("n2", "b", 41, "0000:3b:00", 50.0)


@pytest.mark.parametrize("priority", [8 + 3, 24 + 6, 23 * 8])
def test_a_record_of_any_other_facility_says_nothing(priority):
    assert of_record(priority) == ()


@pytest.mark.parametrize(
    ("line", "text", "host"),
    [
        (f"[51175.459865] {XID}", XID, None),
        (f"<4>[    1.459865] {XID}", XID, None),
        (f"[  +0.000147] {XID}", XID, None),
        (f"[Sat Mar  1 20:05:00 2025] {XID}", XID, None),
        (f"2025-03-01T20:05:00,118402+00:00 {XID}", XID, None),
        (f"2025-03-01 20:05:00 [1632893.116390] {XID}", XID, None),
        (f"Nov 16 04:38:20 gpu1 kernel: [51175.459865] {XID}", XID, "gpu1"),
        (f"2025-03-01T20:05:00.274652-04:00 gpu1.site kernel: [ 261.27] {XID}", XID, "gpu1"),
        (f"3,41,9000000,-;{XID}", XID, None),
        (XID, XID, None),
    ],
)
def test_every_form_of_a_saved_line_is_read(line, text, host):
    said = parse_line(line, timezone.utc)
    assert said is not None
    assert (said.text, said.host) == (text, host)


@pytest.mark.parametrize(
    "line",
    [
        f"Nov 16 04:38:20 gpu1 python[31]: {XID}",
        f"2025-03-01T20:05:00.274652-04:00 gpu1 logger: {XID}",
        f"11,41,9000000,-;{XID}",
    ],
)
def test_what_another_program_logged_is_not_the_kernels(line):
    assert parse_line(line) is None
    assert of_log(line + "\n") == []


def test_times_are_read_where_the_line_holds_them():
    eight = datetime(2025, 3, 1, 20, 5, tzinfo=timezone.utc).timestamp()
    for line in (f"[Sat Mar  1 20:05:00 2025] {XID}", f"2025-03-01T20:05:00,000000+00:00 {XID}"):
        assert [each.evidence.at for each in of_log(line)] == [eight]
    assert [each.evidence.at for each in of_log(f"[  5.000000] {XID}")] == [None]


def test_a_saved_log_numbers_its_lines_and_its_boots():
    found = of_log(f"[ 9.000001] {XID}\n[ 0.000000] Linux version 6.1.0\n[ 7.000000] {XID}\n", node="n2")
    faults = [each.evidence for each in found if each.convicts]
    assert [(each.line, each.boot_id, each.node) for each in faults] == [
        (1, "dmesg.log#0", "n2"),
        (3, "dmesg.log#1", "n2"),
    ]


@pytest.mark.parametrize(
    ("head", "kernel"),
    [
        (f"[ 9.000001] {XID}\n[ 9.000002] usb 1-1: new device\n", True),
        (f"3,41,9000000,-;{XID}\n", True),
        (f"Nov 16 04:38:20 gpu1 kernel: {XID}\n", True),
        (f"{XID}\n", False),
        (f"step 1 loss 2\nstep 2 loss 2\n[ 9.000001] {XID}\n", False),
        ("", False),
    ],
)
def test_a_kernel_log_is_told_by_its_stamps(head, kernel):
    assert looks_like_kernel(head.encode()) is kernel


def test_under_a_kernel_logs_name_stamps_of_any_precision_count():
    head = f"[ 9.01] {XID}\n[ 9.3] usb 1-1: new device\n"
    assert kind_of("console-n7.log", head.encode()) is Source.KERNEL
    assert kind_of("train.log", head.encode()) is Source.JOB_LOG
