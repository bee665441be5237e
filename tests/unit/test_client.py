"""The thin client's pure parts, and that it and the brain agree: on what a reboot-class fault is, and on the reason."""

from __future__ import annotations

import ast
import string
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.make import BOOT
from wheeltapper import catalogue, kmsg
from wheeltapper.checks.open_faults import open_faults
from wheeltapper.evidence import Disposition, Finding
from wheeltapper.policy.reason import MAX_CHARS, format_reason, is_ours, parse_reason
from wheeltapper.scan import scan_kernel
from wheeltapper_hooks import agentless, client, kernel_faults

LOST = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
OTHER_LOST = "NVRM: Xid (PCI:0000:86:00.0 GPU-I:05): 79, pid=1, GPU has fallen off the bus."
NO_XID = "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus."
ALSO_LOST = "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."
NEEDS_REBOOT = (
    "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
)
NEEDS_SYSTEM_REBOOT = (
    "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x2 (OS Reboot) to 0x7 (System Reboot)"
)
CLEARED = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"
APPLICATION = "NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=fallen off the bus, Ch 00000008"


def records(*lines: str, facility: int = 0, seconds: float = 1.0) -> list[str]:
    """Kernel records of *lines*, one every *seconds*."""
    return [f"{facility * 8 + 4},{n},{int(n * seconds * 1e6)},-;{line}" for n, line in enumerate(lines, start=1)]


@pytest.fixture(scope="module")
def known():
    return catalogue.load()


def the_brains(lines: list[str], known: catalogue.Catalogue) -> list[Finding]:
    """What the agent makes of the same *lines*: faults that only a reboot mends, in the order of the log."""
    findings = [
        finding
        for line in lines
        if (record := kmsg.parse_record(line))
        for finding in scan_kernel(record, known, node="n1", boot_id=BOOT, at=record.usec / 1e6)
    ]
    faults = [each for each in open_faults(findings) if each.disposition is Disposition.REBOOT]
    return sorted(faults, key=lambda each: each.evidence.sequence)


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ([], 0),
        ([LOST], 1),
        ([LOST, OTHER_LOST], 2),
        ([LOST, LOST, LOST], 1),
        ([NO_XID], 1),
        ([LOST, ALSO_LOST], 1),
        ([ALSO_LOST, LOST], 1),
        ([LOST, NO_XID], 2),
        ([ALSO_LOST, CLEARED, LOST], 1),
        ([NEEDS_REBOOT], 1),
        ([NEEDS_REBOOT, NEEDS_SYSTEM_REBOOT], 1),
        ([NEEDS_REBOOT, CLEARED], 0),
        ([CLEARED, NEEDS_REBOOT], 1),
        ([LOST, CLEARED], 0),
        ([LOST, CLEARED, LOST], 1),
        ([LOST, OTHER_LOST, CLEARED], 1),
        ([LOST, NEEDS_REBOOT], 1),
        ([APPLICATION, "usb 1-1: a device fallen off the bus", "NVRM: Xid storm suppressed"], 0),
        (["NVRM: Xid (PCI:0000:3b:00): 154, no words that we know"], 0),
    ],
)
def test_client_and_brain_find_the_same_reboot_faults(lines, count, known):
    log = records(*lines)
    ours = kernel_faults.open_faults(log)
    theirs = the_brains(log, known)

    assert len(ours) == count
    assert [(each.sequence, each.label, each.detail, each.gpu) for each in ours] == [
        (each.evidence.sequence, each.label, each.detail, each.evidence.gpu) for each in theirs
    ]


def test_after_five_quiet_minutes_the_same_fault_is_a_new_one(known):
    """A person's release has settled the first one only."""
    log = records(LOST, LOST, LOST, seconds=301)

    assert [each.sequence for each in kernel_faults.open_faults(log)] == [3]
    assert [each.evidence.sequence for each in the_brains(log, known)] == [3]


@pytest.mark.parametrize("facility", [1, 3, 23])
def test_only_the_kernels_own_facility_counts(facility):
    assert kernel_faults.open_faults(records(LOST, facility=facility)) == []


@given(st.lists(st.text(string.printable, max_size=80), max_size=5))
def test_no_text_stops_the_reader_of_the_kernel_log(lines):
    kernel_faults.open_faults(
        [*lines, *records(*lines), *records(*(f"NVRM: Xid ({line}): 154, to 0x{line}" for line in lines))]
    )


@pytest.mark.parametrize("line", [LOST, NO_XID, NEEDS_REBOOT])
@pytest.mark.parametrize("job", ["", "1234", "9" * 20])
def test_client_and_brain_write_the_same_reason(line, job, known, monkeypatch):
    monkeypatch.setattr(kernel_faults.time, "time", lambda: 1_796_000_000.0)
    monkeypatch.setattr(kernel_faults.time, "monotonic", lambda: 0.0)
    log = records(line)
    [ours], [theirs] = kernel_faults.open_faults(log), the_brains(log, known)
    reason = ours.reason(job)

    assert reason == format_reason(theirs, job or None, 0.0).replace("1970-01-01T00:00:01Z", "2026-11-30T00:53:21Z")
    assert is_ours(reason)
    assert parse_reason(reason).job == (job or None)
    assert len(reason) < MAX_CHARS


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (LOST, "0000:3b:00"),
        (OTHER_LOST, "0000:86:00"),
        (NO_XID, "0000:18:00"),
        ("NVRM: Xid (00000000:3B:00): 79, x", "0000:3b:00"),
        ("NVRM: GPU at PCI:0000:af:00: GPU-1234", "0000:af:00"),
        ("NVRM: fallen off the bus and is not responding to commands.", ""),
        ("at 12:34:56 or zz:zz:zz or 0000:3b", ""),
    ],
)
def test_pci_addresses_are_found_in_the_drivers_lines(text, address):
    assert kernel_faults.pci_address(text) == address


SHOWN = (
    "NodeName=n1 Arch=x86_64 CPUTot=2 State={} ThreadsPerCore=1 Comment=State=IDLE Reason={} [root@2026-11-29T12:00:00]"
)


@pytest.mark.parametrize(
    ("state", "reason", "out", "foreign"),
    [
        ("IDLE", "", False, False),
        ("IDLE", "old words", False, False),
        ("MIXED+DRAIN", "admin: swap PSU", True, True),
        ("IDLE+DRAIN", "Prolog error", True, True),
        ("DOWN*", "Not responding", True, True),
        ("IDLE+DRAIN", "wheeltapper: hardware/gpu_xid xid=79 at=2026-11-29T12:01:03Z: reboot", True, False),
        ("DOWN+DRAIN", "wheeltappers: mine", True, True),
    ],
)
def test_a_reason_that_is_not_ours_belongs_to_somebody(state, reason, out, foreign):
    shown = SHOWN.format(state, reason) if reason else SHOWN.partition(" Reason=")[0].format(state)

    assert agentless.is_out(shown) is out
    assert agentless.is_foreign(shown) is foreign


@pytest.mark.parametrize("job", [b"", b"..", b"../7", b"7/8", b"-7", b"7\n", "\u0667".encode(), b" 7"])
def test_only_digits_are_a_job_id(job):
    assert agentless.job_id({b"SLURM_JOB_ID": job}) == ""


def test_a_job_id_is_taken_as_it_is():
    assert agentless.job_id({b"SLURM_JOB_ID": b"1234"}) == "1234"


@given(st.dictionaries(st.binary(min_size=1, max_size=20), st.binary(max_size=60), max_size=6))
def test_no_variable_adds_a_line_to_the_question(environment):
    environment = {b"SLURM_" + name: value for name, value in environment.items()}
    hook, *lines = client.question("prolog", environment).split(b"\n")

    assert hook == b"prolog"
    assert lines[-2:] == [b"", b""]
    assert all(line.startswith(b"SLURM_") and b"=" in line for line in lines[:-2])
    assert len(lines) - 2 <= len(environment)


def test_the_guilty_code_is_none_that_python_or_a_shell_ends_with():
    assert client.GUILTY not in {0, 1, 2, 120}
    assert client.GUILTY < 126


def test_deadlines_nest_and_stay_under_slurms_notice():
    """Slurm says that a prolog hangs at 8 s; the design asks for less than 6."""
    assert client.SILENCE_S < client.ASK_S < client.TOTAL_S < 6.0
    assert agentless.COMMAND_S < client.TOTAL_S - client.SILENCE_S


@pytest.mark.parametrize("module", [client, agentless, kernel_faults])
def test_the_client_imports_builtin_modules_and_its_own_siblings(module):
    """What is compiled into every Python costs next to nothing; `__future__` is a small file, and the fallback's only."""
    allowed = set(sys.builtin_module_names) | {"_socket", "wheeltapper_hooks", "wheeltapper_hooks.kernel_faults"}
    if module is not client:
        allowed |= {"__future__", "collections.abc"}  # the latter under TYPE_CHECKING
    tree = ast.parse(Path(module.__file__).read_text())
    imported = {alias.name for each in ast.walk(tree) if isinstance(each, ast.Import) for alias in each.names}
    imported |= {each.module for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}

    assert imported <= allowed
