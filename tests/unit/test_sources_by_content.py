"""Whose words a file holds is decided by its content; its name is a hint."""

from __future__ import annotations

import io

import pytest

from tests.unit.evidence import CATALOGUE
from wheeltapper.evidence import Finding, Source
from wheeltapper.scan.inputs import kind_of, read_stream

XID = "NVRM: Xid (PCI:0000:5e:00): 79, pid=4242, name=python3, GPU has fallen off the bus."
JOB = [f"step {number}: loss 2.{number}" for number in range(30)]


def read(name: str, *lines: str) -> tuple[Finding, ...]:
    return read_stream(io.BytesIO("".join(f"{line}\n" for line in lines).encode()), name, CATALOGUE).findings


@pytest.mark.parametrize("name", ["console.log", "kern.log", "messages", "dmesg.txt"])
def test_the_output_of_a_job_is_a_jobs_log_whatever_its_file_is_called(name):
    assert kind_of(name, "\n".join(JOB).encode()) is Source.JOB_LOG
    assert not any(each.convicts for each in read(name, *JOB, XID, f"kernel: {XID}"))


@pytest.mark.parametrize(
    "line",
    [
        "kernel: {}",
        "kite03 kernel: {}",
        "Feb  3 04:05:06 kite03 kernel: {}",
        "2026-02-03 04:05:06 [ 1391.118802] {}",
        "[ 1391.118802] {}",
    ],
)
def test_lines_of_a_system_are_the_kernels_whatever_their_file_is_called(line):
    lines = [line.format(text) for text in ("nvidia-nvlink: loaded", XID)]
    (found,) = [each for each in read("notes.txt", *lines) if each.convicts]
    assert (found.signature, found.evidence.source, found.evidence.line) == ("nvidia.xid.79", Source.KERNEL, 2)


def test_drivers_without_stamps_are_the_kernels_in_a_file_that_is_named_so():
    assert [each.signature for each in read("dmesg.txt", "mlx5_core 0000:9a:00.0: Port module event", XID)][-1:] == [
        "nvidia.xid.79"
    ]


def test_what_the_kernel_writes_over_a_consoles_login_is_its_own():
    lines = ["[  OK  ] Started the job's scope.", f"kite03 login: [ 1391.118802] {XID}"]
    assert [each.signature for each in read("console.log", *lines)] == ["nvidia.xid.79"]


def test_what_another_program_wrote_into_a_system_log_is_not_the_kernels():
    lines = ["kite03 kernel: nvidia-nvlink: loaded", f"kite03 trainer[77]: {XID}", "kite03 sshd[9]: session opened"]
    assert read("messages", *lines) == ()
