"""What the agent keeps in files: the store, the kernel log's reader, markers, and sysfs for the count of GPUs."""

from __future__ import annotations

import asyncio
import select
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.make import BOOT, xid79
from wheeltapper import catalogue
from wheeltapper.evidence import Disposition
from wheeltapper_hooks.agent import files, kernel_log, kernel_watch, store
from wheeltapper_hooks.agent.kernel_log import KernelLog
from wheeltapper_hooks.agent.kernel_watch import KernelWatch
from wheeltapper_hooks.agent.markers import DEAD_AFTER_S, Marker, Markers
from wheeltapper_hooks.agent.store import Store

OTHER_BOOT = "99999999-2222-3333-4444-555555555555"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lib" / "agent.db"


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[..., Store]]:
    """Open the store, as often as a test likes; all are closed at its end."""
    stores: list[Store] = []

    def open_again(boot_id: str = BOOT, rows: int = 1000) -> Store:
        stores.append(Store(path, boot_id, rows, 14))
        return stores[-1]

    yield open_again
    for each in stores:
        each.close()


def test_findings_and_the_place_in_the_log_outlive_the_process(opened):
    first = opened()
    first.add([xid79(sequence=7), xid79(sequence=9, gpu="0000:86:00")], 11)
    first.close()
    second = opened()

    assert second.cursor() == 11
    assert second.since(0.0, 10) == [xid79(sequence=7), xid79(sequence=9, gpu="0000:86:00")]


def test_the_same_finding_is_kept_once(opened):
    kept = opened()
    kept.add([xid79()])
    kept.add([xid79()])

    assert kept.since(0.0, 10) == [xid79()]


def test_another_boot_begins_anew(opened):
    before = opened()
    before.add([xid79()], 7)
    before.close()
    after = opened(OTHER_BOOT)

    assert after.cursor() == -1
    assert after.since(0.0, 10) == []
    after.close()


def test_of_too_many_findings_the_convicting_and_the_newest_stay(opened):
    kept = opened(rows=3)
    harmless = [
        replace(xid79(sequence=n, at=1000.0 + n), disposition=Disposition.NONE, signature="nvidia.xid.13")
        for n in range(5)
    ]
    guilty = xid79(sequence=100, at=500.0)
    kept.add([guilty, *harmless])

    assert [each.evidence.sequence for each in kept.since(0.0, 10)] == [100, 3, 4]
    assert [each.evidence.sequence for each in kept.since(0.0, 2)] == [100, 4]


def test_old_findings_of_other_boots_go_and_those_of_this_boot_stay(path, opened):
    """A GPU lost three weeks ago is still lost while the node has not rebooted."""
    before = opened()
    before.add([xid79(at=1000.0)])
    before.close()
    after = opened(OTHER_BOOT)
    after.add([xid79(sequence=1, at=1000.0)])
    after.add([])
    after.close()

    with sqlite3.connect(path) as db:
        assert [boot for (boot,) in db.execute("SELECT boot_id FROM finding")] == [OTHER_BOOT]
    db.close()


def test_marks_are_kept_by_kind(opened):
    kept = opened()
    kept.mark("settled", [f"{BOOT}:7:xid=79"])
    kept.mark("drained", [f"{BOOT}:8:"])

    assert kept.marked("settled") == {f"{BOOT}:7:xid=79"}
    kept.close()
    assert opened().marked("drained") == {f"{BOOT}:8:"}


def test_the_outbox_keeps_order_until_delivered(opened):
    kept = opened()
    first, second = kept.post("one"), kept.post("two")
    kept.repost(first, "one, later")
    assert kept.undelivered() == [(first, "one, later"), (second, "two")]
    kept.drop(first)

    assert opened().undelivered() == [(second, "two")]


def test_the_outbox_is_bounded(opened, monkeypatch):
    monkeypatch.setattr(store, "OUTBOX_ROWS", 3)
    kept = opened()
    for number in range(10):
        kept.post(str(number))

    assert [body for _, body in kept.undelivered()] == ["6", "7", "8", "9"]


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_file_is_left_alone_and_said(path, opened, content):
    path.parent.mkdir()
    path.write_bytes(content)
    kept = opened()
    kept.add([xid79()], 7)

    assert "kept in memory only" in kept.trouble
    assert kept.since(0.0, 10) == [xid79()]
    assert path.read_bytes() == content


def test_a_write_that_fails_takes_what_was_known_into_memory(opened):
    kept = opened()
    kept.add([xid79()], 7)
    kept.post("report")
    kept._db.execute("PRAGMA query_only = ON")  # as a file system that went read-only
    kept.add([xid79(sequence=8, gpu="0000:86:00")], 8)

    assert "writing failed" in kept.trouble
    assert [each.evidence.sequence for each in kept.since(0.0, 10)] == [7, 8]
    assert kept.cursor() == 8
    assert [body for _, body in kept.undelivered()] == ["report"]


def test_replace_leaves_the_old_content_when_it_fails(tmp_path):
    target = tmp_path / "verdict"
    files.replace(target, "old")
    (tmp_path / ".verdict.new").unlink(missing_ok=True)
    (tmp_path / ".verdict.new").mkdir()
    with pytest.raises(OSError, match="directory"):
        files.replace(target, "new")

    assert target.read_text() == "old"


def test_a_growing_file_is_read_line_by_line_and_half_lines_wait(tmp_path):
    path = tmp_path / "kmsg"
    path.write_bytes(b"one\ntwo\nthr")
    log = KernelLog(path)
    assert not log.is_device
    assert log.read() == (["one", "two"], True)
    with path.open("ab") as more:
        more.write(b"ee\n\xff\n")
    assert log.read() == (["three", "\ufffd"], True)
    assert log.read() == ([], True)
    path.write_bytes(b"new\n")
    assert log.read() == (["new"], True)
    log.close()


def wakes(log: KernelLog) -> bool:
    return bool(select.select([log.wakes], [], [], 0)[0])


def test_a_file_wakes_its_reader_when_it_grows_and_not_before(tmp_path):
    path = tmp_path / "kmsg"
    path.write_bytes(b"one\n")
    log = KernelLog(path)
    log.read()
    assert not wakes(log)
    with path.open("ab") as more:
        more.write(b"two\n")
    assert wakes(log)
    assert log.read() == (["two"], True)
    assert not wakes(log)
    log.close()


def test_a_file_that_took_the_name_of_another_wakes_its_reader(tmp_path):
    path = tmp_path / "kmsg"
    path.write_bytes(b"one\n")
    log = KernelLog(path)
    log.read()
    path.rename(tmp_path / "kmsg.1")
    path.write_bytes(b"two\n")
    assert log.read() == (["two"], True)
    with path.open("ab") as more:
        more.write(b"three\n")
    assert wakes(log)
    log.close()


def test_a_file_that_may_not_be_listened_to_is_read_all_the_same(tmp_path, monkeypatch):
    def refuse(_fd):
        raise OSError("no more watches")

    monkeypatch.setattr(kernel_log, "Growth", refuse)
    path = tmp_path / "kmsg"
    path.write_bytes(b"one\n")
    log = KernelLog(path)
    assert log.wakes is None
    assert log.read() == (["one"], True)
    log.close()


def test_who_could_not_read_all_at_once_does_not_wait_for_more(tmp_path, monkeypatch):
    """What was written before is announced no more."""
    monkeypatch.setattr(kernel_log, "LINES_A_LOOK", 10)
    monkeypatch.setattr(kernel_log, "CHUNK", 64)
    path = tmp_path / "kmsg"
    path.write_text("6,1,1,-;a line of the kernel\n" * 1000)
    monkeypatch.setattr(kernel_watch, "ROTATED_S", 3600.0)
    watch = KernelWatch(path, "n1", BOOT, catalogue.load(()), lambda _found, _cursor: None)
    looks = 0

    async def follow() -> None:
        nonlocal looks
        watch.look()
        while watch.blind:
            await watch.until_it_may_have_grown()
            watch.look()
            looks += 1

    asyncio.run(asyncio.wait_for(follow(), 60))
    watch.close()
    assert looks > 10


def test_what_a_gpu_repeats_is_said_once_a_look_with_its_number(tmp_path, caplog):
    path = tmp_path / "kmsg"
    text = "NVRM: Xid (PCI:0000:{gpu}:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    path.write_text("".join(f"4,{n},{n},-;{text.format(gpu='3b' if n % 10 else '86')}\n" for n in range(1, 101)))
    watch = KernelWatch(path, "n1", BOOT, catalogue.load(()), lambda _found, _cursor: None)

    with caplog.at_level("INFO", logger=kernel_watch.__name__):
        watch.look()
    watch.close()

    said = [text for text in caplog.messages if "kernel log shows" in text]
    assert [text.partition(": NVRM")[0] for text in said] == [
        "The kernel log shows nvidia.xid.79 (90 times)",
        "The kernel log shows nvidia.xid.79 (10 times)",
    ]
    assert len(watch.known) == 100


def test_a_long_log_is_read_in_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_log, "LINES_A_LOOK", 10)
    monkeypatch.setattr(kernel_log, "CHUNK", 64)
    path = tmp_path / "kmsg"
    path.write_text("a line of the log\n" * 100)
    log = KernelLog(path)
    lines: list[str] = []
    turns = 0
    drained = False
    while not drained:
        more, drained = log.read()
        lines += more
        turns += 1
    log.close()

    assert len(lines) == 100
    assert turns > 5


def test_an_overrun_is_told_and_reading_goes_on(tmp_path, monkeypatch, caplog):
    """The kernel answers EPIPE once, and then with the oldest record that it still has."""
    path = tmp_path / "kmsg"
    path.touch()
    log = KernelLog(path)
    answers = iter([b"6,1,1,-;one\n", BrokenPipeError(), b"6,9,9,-;nine\n", BlockingIOError()])

    really = kernel_log.os.read

    def read(fd: int, size: int) -> bytes:
        if fd != log.fd:
            return really(fd, size)
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(kernel_log.os, "read", read)
    assert log.read() == (["6,1,1,-;one", "6,9,9,-;nine"], True)
    assert "lines were lost" in caplog.text
    log.close()


def test_markers_of_the_dead_are_forgotten(tmp_path):
    markers = Markers(tmp_path)
    markers.write("1", Marker(100.0, BOOT))
    markers.write("2", Marker(100.0, OTHER_BOOT))
    markers.write("3", Marker(200.0 + DEAD_AFTER_S, BOOT))
    (tmp_path / "4").touch()
    markers.forget_the_dead(BOOT, 150.0 + DEAD_AFTER_S)

    assert sorted(each.name for each in tmp_path.iterdir()) == ["3", "4"]


def test_a_marker_that_is_not_there_is_none(tmp_path):
    markers = Markers(tmp_path)
    markers.remove("1")

    assert markers.read("1") is None


def test_a_burst_leaves_no_more_than_the_store_may_hold(opened):
    kept = opened(rows=100)
    kept.add([xid79(sequence=n, at=float(n)) for n in range(1000)], 1000)
    assert len(kept.since(0.0, 1000)) == 100
