"""Bursts cost little and hide nothing: codes, speakers and the last word are always read."""

from __future__ import annotations

import io
import re
from collections import Counter
from datetime import timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wheeltapper import catalogue
from wheeltapper.catalogue import matching
from wheeltapper.catalogue.engines import FASTEST_FIRST, Re2
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.scan import bursts, scan_log
from wheeltapper.scan.bursts import CODES_MAX, Bursts
from wheeltapper.scan.finding import KEEP_FIRST

CATALOGUE = catalogue.load()


def read_of(lines: list[bytes]) -> list[bytes]:
    """The lines that are read, at once or at the end."""
    burst = Bursts()
    read = []
    for number, (line, slot) in enumerate(zip(lines, burst.put_off(lines), strict=True)):
        if slot is None:
            read.append(line)
        else:
            slot.last = line, number, 0, number, b""
    return read + [piece.raw for piece in burst.last_ones()]


def test_a_step_counter_is_no_news():
    lines = [b"step %d: NCCL WARN retry" % number for number in range(100_000)]
    read = read_of(lines)
    assert len(read) < CODES_MAX + KEEP_FIRST + 3
    assert read[-1] == lines[-1]


def test_one_code_among_a_million_is_read():
    lines = [b"srun: error: n%d: task %d: Exited with exit code 1" % (n % 64, n) for n in range(20_000)]
    lines[15_000] = lines[15_000].replace(b"code 1", b"code 137")
    assert lines[15_000] in read_of(lines)


def test_every_rank_is_heard_first_and_last():
    lines = [b"[rank%d]: watchdog, work %d" % (n % 3000, n) for n in range(30_000)]
    heard = Counter(line.split(b"]")[0] for line in read_of(lines))
    assert len(heard) == 3000
    assert min(heard.values()) > KEEP_FIRST
    assert set(lines[-3000:]) <= set(read_of(lines))


def test_hosts_and_addresses_are_speakers_too():
    lines = [b"node-%d:%d:%d [0] NCCL WARN peer 10.0.%d.%d" % (n, n, n, n // 250, n % 250) for n in range(5000)]
    assert read_of(lines) == lines


def test_times_and_addresses_of_memory_are_no_news():
    lines = [
        b"2025-11-29 12:%02d:%02d,%03d Error at 0x7f%02x00 in it" % (n // 60, n % 60, n % 997, n % 200)
        for n in range(3000)
    ]
    shapes = {(line.translate(None, b"0123456789"), len(re.findall(rb"\d+", line))) for line in lines}
    assert len(read_of(lines)) <= len(shapes) * (KEEP_FIRST + 2)


def test_shapes_and_speakers_are_bounded(monkeypatch):
    monkeypatch.setattr(bursts, "SHAPES_MAX", 10)
    monkeypatch.setattr(bursts, "KINDS_MAX", 10)
    burst = Bursts()
    for number in range(1000):
        burst.put_off([b"Error " + b"x" * (number % 100), b"[rank%d]: watchdog" % number])
    assert len(burst._shapes) == 10
    assert sum(len(shape.heard) for shape in burst._shapes.values()) == 10


WATCHDOG = (
    "[rank{n}]:[E] [Rank {n}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, "
    "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 60002{n} milliseconds before timing out."
)


def test_what_is_remembered_is_bounded_and_forgetting_hides_nothing(monkeypatch):
    monkeypatch.setattr(bursts, "VALUES_MAX", 20)
    monkeypatch.setattr(bursts, "SETTLED_MAX", 20)
    monkeypatch.setattr(bursts, "LAYOUTS_MAX", 20)
    lines = [b"worker: exit code %d after %d" % (n % 90, n % 70) for n in range(2000)]
    burst = Bursts()
    read = [line for line, slot in zip(lines, burst.put_off(lines), strict=True) if slot is None]
    assert set(read) >= set(lines[:90])
    assert sum(len(seen) for shape in burst._shapes.values() for seen in shape.codes.values()) <= 22
    assert len(burst._layouts) <= 20


LINE = st.sampled_from(
    [
        "2025-11-29 12:00:0{n} [rank{n}]: RuntimeError: CUDA error: an illegal memory access was encountered",
        WATCHDOG,
        "srun: error: n{n}: task {n}: Exited with exit code {n}",
        "\x1b[31m[rank{n}]: torch.OutOfMemory\x1b[1mError: CUDA out of memory. Tried to allocate {n}.00 GiB.\x1b[0m",
        " {n}0%|###  | {n}/10 [00:0{n}<00:01]\r{n}: quiet\r",
        "step {n} loss 2.{n}",
        "",
    ]
)
LOG = st.lists(st.tuples(LINE, st.integers(0, 9)).map(lambda each: each[0].format(n=each[1]).encode()), max_size=60)


class Trickle:
    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = io.BytesIO(data)
        self._sizes = sizes

    def read(self, size: int, /) -> bytes:
        self._sizes.append(self._sizes.pop(0))
        return self._data.read(min(size, self._sizes[-1]))


def scan(data: bytes, known=CATALOGUE, sizes=(1 << 20,)):
    return list(scan_log(Trickle(data, list(sizes)), known, file="log", zone=timezone.utc))


@given(LOG, st.lists(st.integers(1, 200), min_size=1, max_size=5))
def test_findings_do_not_depend_on_how_the_log_arrives(lines, sizes):
    data = b"\n".join(lines)
    assert scan(data, sizes=sizes) == scan(data)


BY_ENGINE = [catalogue.Catalogue(CATALOGUE.signatures, engine) for engine in FASTEST_FIRST]


@given(LOG)
def test_findings_do_not_depend_on_the_engine(lines):
    data = b"\n".join(lines)
    assert [scan(data, known) for known in BY_ENGINE] == [scan(data)] * len(BY_ENGINE)


@settings(max_examples=30)
@given(LOG, st.integers(0, 2000))
def test_findings_do_not_depend_on_when_the_fastest_engine_takes_over(lines, large):
    data = b"\n".join(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "LARGE", large)
        patch.setattr(matching, "fastest", lambda: Re2)  # the quickest to build of those that could take over
        assert scan(data, catalogue.Catalogue(CATALOGUE.signatures), (100,)) == scan(data)


def answer(data: bytes):
    found = diagnose(scan(data), None, window_s=1800.0)
    return found.label, found.detail, found.symptom, found.suspects, found.confidence


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.integers(2, 40), st.integers(1, 30))
def test_the_answer_does_not_depend_on_how_ranks_are_interleaved(random, ranks, times):
    silent = random.randrange(ranks)
    logs = {
        rank: [
            f"[rank{rank}]:[E1129 12:00:{seq:02d}] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL"
            f"(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds "
            "before timing out."
            for seq in range(times)
        ]
        for rank in range(ranks)
        if rank != silent
    }
    in_order = "\n".join(line for lines in logs.values() for line in lines)
    turns = [rank for rank, lines in logs.items() for _ in lines]
    random.shuffle(turns)
    shuffled = "\n".join(logs[rank].pop(0) for rank in turns)
    assert answer(shuffled.encode()) == answer(in_order.encode())


@settings(max_examples=200)
@given(
    st.lists(
        st.one_of(
            LINE.map(str.encode),
            st.binary(max_size=40),
            st.sampled_from([b"\x1b", b"\x1b]0;", b"\r", b"\n", b"\0" * 50, b"9" * 400]),
        ),
        max_size=50,
    ).map(b"".join)
)
def test_no_bytes_crash_the_scan_and_every_place_is_true(data):
    for each in scan(data):
        seen = each.evidence
        assert data.count(b"\n", 0, seen.offset) + 1 == seen.line
        assert seen.offset == 0 or data[seen.offset - 1 : seen.offset] == b"\n"
