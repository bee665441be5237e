"""What the agent concludes: the verdict, the job's stay, the count of GPUs, the time of a kernel line."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.make import BOOT, xid79
from wheeltapper.checks.gpu import count as gpu_count
from wheeltapper.checks.model import Host, NoLimits, Reading
from wheeltapper.checks.open_faults import open_faults
from wheeltapper.config import NodeSection
from wheeltapper.evidence import Disposition, Finding, Role, Source, pci_address
from wheeltapper.labels import label
from wheeltapper.recovery import ADVICE
from wheeltapper.verdict import State, Verdict
from wheeltapper.wire import JobStay
from wheeltapper_hooks.agent import files
from wheeltapper_hooks.agent.boot import KernelClock
from wheeltapper_hooks.agent.judge import judge, settling_key, still_telling
from wheeltapper_hooks.agent.markers import Marker, gpu_addresses, job_id, parse_marker
from wheeltapper_hooks.agent.stays import Moment, of_this_stay, running, stay_of

NOTHING = frozenset[str]()

GPUS = ("0000:3b:00", "00000000:86:00.0", "0000:AF:00")


def test_no_finding_is_ok():
    assert judge([], NOTHING, "") == (State.OK, (), "")


def test_an_open_fault_fails_the_node_even_when_we_are_half_blind():
    assert judge([xid79()], NOTHING, "the PCI devices cannot be listed") == (State.FAIL, (xid79(),), "")


def test_a_blind_agent_does_not_know():
    assert judge([], NOTHING, "no kernel log") == (State.UNKNOWN, (), "no kernel log")


def test_a_settled_fault_warns_and_the_next_one_fails_again():
    settled = frozenset({settling_key(xid79())})
    state, findings, _ = judge([xid79()], settled, "")
    assert (state, findings) == (State.WARN, (xid79(),))

    other = xid79(sequence=8, gpu="0000:86:00")
    assert judge([xid79(), other], settled, "") == (State.FAIL, (other,), "")


def test_a_line_of_a_jobs_log_convicts_nobody():
    hearsay = replace(xid79(), evidence=replace(xid79().evidence, source=Source.JOB_LOG))

    assert judge([hearsay], NOTHING, "")[0] is State.OK


KINDS = {
    "lost": ("nvidia.xid.79", "hardware/gpu_xid", Role.ROOT, Disposition.REBOOT),
    "ecc": ("nvidia.xid.48", "hardware/ecc_uncorrectable", Role.ROOT, Disposition.RESET_GPU),
    "contained": ("nvidia.xid.94", "hardware/ecc_uncorrectable", Role.ROOT, Disposition.RESTART_APP),
    "application": ("nvidia.xid.31", "software/cuda_fault", Role.ROOT, Disposition.RESTART_APP),
    "advice 0": (ADVICE, "hardware/gpu_xid", Role.CONFIRM, Disposition.NONE),
    "advice 1": (ADVICE, "hardware/gpu_xid", Role.CONFIRM, Disposition.NONE),
    "advice 2": (ADVICE, "hardware/gpu_xid", Role.CONFIRM, Disposition.NONE),
}
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(sorted(KINDS)),
        st.sampled_from(["0000:3b:00", "0000:86:00"]),
        st.sampled_from([1, 40, 200, 299, 301, 2000]),
    ),
    max_size=40,
)


def history(events: list[tuple[str, str, int]]) -> list[Finding]:
    findings = []
    moment = 0
    for number, (kind, gpu, gap) in enumerate(events):
        moment += gap
        signature, name, role, disposition = KINDS[kind]
        fields = {"new": kind[-1]} if signature == ADVICE else {}
        seen = replace(xid79(sequence=number, at=float(moment), gpu=gpu).evidence, text=kind)
        findings.append(Finding(signature, label(name), role, disposition, seen, fields=fields))
    return findings


@settings(max_examples=500, deadline=None)
@given(EVENTS, st.integers(0, 40))
def test_what_is_let_go_never_changes_the_verdict(events, when):
    """Neither now nor whatever the kernel says later."""
    everything = history(events)
    kept = still_telling(everything[:when])

    assert open_faults(kept) == open_faults(everything[:when])
    assert open_faults(kept + everything[when:]) == open_faults(everything)


def test_a_long_burst_and_a_talkative_application_are_mostly_let_go():
    burst = history([("ecc", "0000:3b:00", 1)] * 1000 + [("application", "0000:3b:00", 1)] * 1000)

    assert len(still_telling(burst)) < 10


@pytest.mark.parametrize(
    ("indices", "addresses"),
    [
        ("", ()),
        ("0", ("0000:3b:00",)),
        ("0,2", ("0000:3b:00", "0000:af:00")),
        ("0-1", ("0000:3b:00", "0000:86:00")),
        ("1,3", ()),
        ("x", ()),
        ("1-", ("0000:86:00",)),
        ("-1", ()),
        ("0,GPU-7d0c8f35", ()),
    ],
)
def test_gpu_indices_become_addresses_or_nothing(indices, addresses):
    """One unknown makes all unknown: a wrong list would acquit a guilty GPU."""
    assert gpu_addresses(indices, GPUS) == addresses


@pytest.mark.parametrize("text", ["", "..", "7/8", "-7", "7 ", "\u0667", "7\n"])
def test_only_digits_are_a_job_id(text):
    assert job_id(text) is None


def test_a_marker_says_what_was_written():
    marker = Marker(12.34, BOOT, "1000", "0,1")

    assert parse_marker(str(marker)) == marker


@pytest.mark.parametrize("text", ["", "uptime=12", "uptime=x\nboot_id=b\n", "boot_id=b\n", "nonsense"])
def test_a_marker_that_was_cut_short_is_none(text):
    assert parse_marker(text) is None


MOMENT = Moment(now=10_000.0, uptime=500.0, boot_id=BOOT)


def test_a_stay_begins_at_the_marker():
    stay = stay_of("7", Marker(400.0, BOOT, "", "0"), {"SLURM_JOB_START_TIME": "1"}, GPUS, MOMENT)

    assert (stay.prolog_at, stay.epilog_at, stay.gpus) == (9_900.0, 10_000.0, ("0000:3b:00",))


@pytest.mark.parametrize("marker", [None, Marker(400.0, "another boot")])
def test_without_a_marker_of_this_boot_slurms_start_time_counts(marker):
    assert stay_of("7", marker, {"SLURM_JOB_START_TIME": "9000"}, (), MOMENT).prolog_at == 9_000.0
    assert stay_of("7", marker, {"SLURM_JOB_START_TIME": "soon"}, (), MOMENT).prolog_at is None


@pytest.mark.parametrize(("indices", "count"), [("", 0), ("0", 1), ("0,2", 2), ("0-7", 8), ("0-3,6-7", 6), ("N/A", 0)])
def test_how_many_gpus_a_job_has_is_told_even_where_their_addresses_are_not_known(indices, count):
    stay = stay_of("7", None, {"SLURM_JOB_GPUS": indices}, (), MOMENT)

    assert (stay.gpus, stay.gpu_count) == ((), count)


def test_of_the_jobs_with_a_marker_those_of_this_boot_are_here():
    markers = {"7": Marker(400.0, BOOT, "", "0"), "8": Marker(450.0, BOOT), "9": Marker(10.0, "another boot")}

    assert running(markers, GPUS, MOMENT) == (
        JobStay("7", 9_900.0, None, ("0000:3b:00",), 1),
        JobStay("8", 9_950.0, None),
    )


def at(moment: float, gpu: str = "0000:3b:00") -> Finding:
    return xid79(at=moment, gpu=gpu)


def test_only_faults_of_the_stay_are_the_jobs():
    stay = stay_of("7", Marker(400.0, BOOT), {}, (), MOMENT)

    assert of_this_stay([at(9_899.9), at(9_900.0), at(9_999.0)], stay, MOMENT.now) == (at(9_900.0), at(9_999.0))


def test_a_stay_of_unknown_beginning_reaches_back_half_an_hour():
    stay = stay_of("7", None, {}, (), MOMENT)

    assert of_this_stay([at(8_199.0), at(8_201.0)], stay, MOMENT.now) == (at(8_201.0),)


def test_where_the_jobs_gpus_are_known_only_they_count():
    stay = stay_of("7", Marker(400.0, BOOT, "", "1"), {}, GPUS, MOMENT)
    nameless = replace(at(9_950.0), evidence=replace(at(9_950.0).evidence, gpu=None))

    assert of_this_stay([at(9_950.0), at(9_950.0, "0000:86:00"), nameless], stay, MOMENT.now) == (
        at(9_950.0, "0000:86:00"),
        nameless,
    )


def test_a_verdict_file_is_one_line_for_the_shell_and_two_for_everybody_else():
    verdict = Verdict("n1", State.FAIL, 1000.0, 30.0, BOOT, (xid79(),))
    first, sentence, record = files.render_verdict(verdict, 99.7).splitlines()

    assert first == f"fail {BOOT} 129"
    assert sentence == str(verdict)
    assert '"xid=79"' in record


PRESENT = ("0000:3b:00", "0000:86:00", "0000:af:00")


def count(present: tuple[str, ...], expected: int, gpus: tuple[str, ...] = GPUS) -> tuple[Finding, ...]:
    host = Host("n1", BOOT, NodeSection(expected_gpus=expected, gpus=gpus))
    return tuple(gpu_count.judge((Reading(1000.0, present),), host, NoLimits()))


@pytest.mark.parametrize("expected", [0, 2, 3])
def test_enough_gpus_are_no_finding(expected):
    assert count(PRESENT, expected) == ()


def test_a_missing_gpu_is_named_and_asks_for_a_reboot():
    [finding] = count(PRESENT[:2], 3)

    assert (finding.label, finding.detail, finding.evidence.gpu) == (
        "hardware/gpu_lost",
        "expected=3 found=2",
        "0000:af:00",
    )
    assert finding.disposition is Disposition.REBOOT
    assert finding.convicts
    assert finding.evidence.text == "PCI shows 2 of 3 NVIDIA GPUs; missing: 0000:af:00"


def test_where_addresses_are_not_known_the_count_convicts_alone():
    [finding] = count((), 3, ())

    assert (finding.detail, finding.evidence.gpu) == ("expected=3 found=0", None)


def test_each_number_of_missing_gpus_is_settled_on_its_own():
    [one], [two] = count(PRESENT[:2], 3, ()), count(PRESENT[:1], 3, ())

    assert settling_key(one) != settling_key(two)


def test_a_kernel_line_written_since_the_last_look_is_no_older_than_it():
    """The kernel's clock drifts by minutes over months; a look bounds the error."""
    clock = KernelClock()
    now = time.time()
    early = clock.wall(0)
    assert early == pytest.approx(now - time.monotonic(), abs=1.0)
    clock.looked()

    assert now <= clock.wall(0) <= time.time()
    assert clock.wall(10**15) <= time.time()


def test_addresses_of_the_configuration_are_read_in_any_common_form():
    assert [pci_address(each) for each in GPUS] == list(PRESENT)
