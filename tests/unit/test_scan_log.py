"""Logs of jobs: true places, constant memory, and nothing in them can stop the scan."""

from __future__ import annotations

import io
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wheeltapper import catalogue
from wheeltapper.evidence import EXCERPT_CHARS
from wheeltapper.scan import scan_file, scan_log
from wheeltapper.scan.blocks import BLOCK
from wheeltapper.scan.finding import CROWD, KEEP_FIRST
from wheeltapper.scan.text import without_prefix

CATALOGUE = catalogue.load()
OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
QUIET = b" iteration 50/1000 | lm loss: 1.5E+01 | loss scale: 16384.0 | grad norm: 63.0 |\n"


def scan(data: bytes, **more):
    return list(scan_log(io.BytesIO(data), CATALOGUE, file="slurm-12.out", zone=timezone.utc, **more))


def test_a_finding_names_file_line_and_byte():
    (found,) = scan(b"first\r\nsecond \xff\x00\n" + OOM + b"\n", node="n1")
    seen = found.evidence
    assert found.label == "software/oom"
    assert (seen.file, seen.line, seen.offset, seen.node) == ("slurm-12.out", 3, 17, "n1")
    assert seen.text == OOM.decode()


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        (OOM, None),
        (b"[rank3]: " + OOM, 3),
        (b"3: " + OOM, 3),
        (b"  12: [rank97]: " + OOM, 97),
        (b"[1,5]<stderr>:" + OOM, 5),
        (b"(RayWorkerWrapper pid=31, ip=10.0.0.1) " + OOM, None),
        (b"2025-08-21T01:34:58.515Z stderr F [rank2]: " + OOM, 2),
        (b"  | 2024-06-07T11:34:55Z | [rank3]:" + OOM, 3),
        (b"\x1b[31m[rank4]: torch.OutOfMemoryError\x1b[0m: CUDA out of memory. Tried to allocate 2.00 GiB.", 4),
        (b" 10%|#  | 1/10\r 20%|## | 2/10\r" + OOM, None),
        (b"\x00\x00" + OOM + b"\r", None),
        (b"\xff\xfe " + OOM, None),
    ],
)
def test_prefixes_colours_and_progress_bars_hide_nothing(line, rank):
    assert [(each.label, each.evidence.rank) for each in scan(line + b"\n")] == [("software/oom", rank)]


def test_the_rank_that_a_message_names_is_believed_first():
    text = b"0: [rank1]:[E] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, "
    (found,) = scan(text + b"Timeout(ms)=1800000) ran for 1806132 milliseconds before timing out.\n")
    assert found.evidence.rank == 7


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("logs/train.rank3.log", 3),
        ("run/rank_0007/stderr", 7),
        ("Rank-12.err", 12),
        ("attempt_0/3/stderr.log", None),
        ("slurm-12-3.out", None),
        ("frank3.log", None),
    ],
)
def test_a_files_name_tells_the_rank_when_it_says_so(name, rank):
    (found,) = scan_log(io.BytesIO(OOM), CATALOGUE, file=name)
    assert found.evidence.rank == rank
    (labelled,) = scan_log(io.BytesIO(b"[rank5]: " + OOM), CATALOGUE, file=name)
    assert labelled.evidence.rank == 5


@pytest.mark.parametrize(
    "line",
    [
        b'    raise RuntimeError("CUDA out of memory. Tried to allocate")',
        b'[rank0]:     raise ValueError("CUDA error: out of memory")',
        b'        "reason": "No space left on device"',
        b"CUDA kernel errors might be asynchronously reported at some other API call.",
        b"For debugging consider passing CUDA_LAUNCH_BLOCKING=1.",
    ],
)
def test_source_code_dumps_and_advice_say_nothing(line):
    assert scan(line + b"\n") == []


def test_the_kernels_words_in_a_log_convict_nobody():
    (found,) = scan(b"NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n")
    assert found.signature == "hearsay.kernel"
    assert not found.convicts


def test_a_time_is_the_lines_own_or_that_of_the_line_above():
    at = datetime(2025, 8, 21, 1, 34, 58, tzinfo=timezone.utc).timestamp()
    (above,) = scan(b"2025-08-21 01:34:58,000 step 9\n" + OOM + b"\n")
    (own,) = scan(b"2020-01-01 00:00:00 old\n2025-08-21T03:34:58+02:00 | " + OOM + b"\n")
    assert (above.evidence.at, own.evidence.at) == (at, at)


def test_a_burst_leaves_its_first_lines_and_its_last():
    found = scan(b"".join(b"[rank%d]: %b\n" % (number % 2, OOM) for number in range(5000)))
    per_rank = [sorted(each.evidence.line for each in found if each.evidence.rank == rank) for rank in (0, 1)]
    assert per_rank == [[1, 3, 5, 7, 4999], [2, 4, 6, 8, 5000]]
    assert len(found) == 2 * (KEEP_FIRST + 1)


def test_in_a_storm_each_rank_has_its_first_word_and_its_last():
    ranks = CROWD + 10
    found = scan(b"".join(b"[rank%d]: %b\n" % (number % ranks, OOM) for number in range(3 * ranks)))
    late = sorted(each.evidence.line for each in found if each.evidence.rank == ranks - 1)
    assert late == [ranks, 3 * ranks]
    assert {each.evidence.rank for each in found} == set(range(ranks))


def test_a_line_of_megabytes_keeps_its_ends_and_the_places_after_it():
    bar = b"\r 10%|#" * (BLOCK // 2)
    (first, second) = scan(QUIET + bar + b"\r" + OOM + b"\n" + OOM + b"\n")
    assert (first.evidence.line, first.evidence.offset) == (2, len(QUIET))
    assert (second.evidence.line, second.evidence.offset) == (3, len(QUIET) + len(bar) + len(OOM) + 2)


def test_an_excerpt_is_bounded():
    (found,) = scan(OOM + b" x" * 5000 + b"\n")
    assert len(found.evidence.text) == EXCERPT_CHARS


@pytest.mark.parametrize("tail", [None, 10**9, 4_000_000, len(OOM) + 1, len(OOM) + 5])
def test_a_tail_keeps_true_line_numbers(tmp_path, tail):
    path = tmp_path / "slurm-12.out"
    path.write_bytes(QUIET * 40_000 + OOM + b"\n")
    (found,) = scan_file(path, CATALOGUE, tail_bytes=tail)
    assert (found.evidence.line, found.evidence.offset) == (40_001, 40_000 * len(QUIET))
    assert found.evidence.file == str(path)


def test_a_tail_begins_with_a_whole_line(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"x" + OOM + b"\n" + OOM + b"\n")
    (found,) = scan_file(path, CATALOGUE, file="log", tail_bytes=len(OOM) + 10)
    assert found.evidence.line == 2


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="absent"):
        scan_file(tmp_path / "absent", CATALOGUE)


@settings(max_examples=200)
@given(st.binary(max_size=2000))
def test_no_bytes_break_the_scan(data):
    found = scan(data + b"\n" + OOM + b"\n")
    assert found[-1].evidence.line == data.count(b"\n") + 2


@given(st.text(max_size=200))
def test_no_text_breaks_the_prefixes(text):
    rest, rank = without_prefix(text)
    assert text.endswith(rest)
    assert rank is None or rank >= 0
