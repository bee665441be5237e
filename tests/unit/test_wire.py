"""The conversation between a node and the service, over a pair of streams in memory."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.unit.make import BOOT, xid79
from wheeltapper import codec, wire
from wheeltapper.errors import WireError
from wheeltapper.verdict import State
from wheeltapper.wire import Answer, Health, JobStay, Leave, LogReport, Report

MASTER = b"m" * 32
BODY = b'{"kind": "none"}'
REPORT = Report("n1", BOOT, JobStay("12", 1.0, 2.0, ("0000:3b:00",)), (xid79("n1"),))


class Pipe:
    """A writer whose bytes come out of a reader."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def write(self, data: bytes) -> None:
        self._reader.feed_data(data)

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def close(self) -> None:
        with contextlib.suppress(AssertionError):
            self._reader.feed_eof()


async def talk(monkeypatch, message, *, node="n1", key=None, handle=None, tamper=lambda data: data):
    """Let a node say *message* to the service; return the answer and what the service heard."""
    heard: list[object] = []
    to_service, to_node = asyncio.StreamReader(), asyncio.StreamReader()

    class Tampered(Pipe):
        def write(self, data: bytes) -> None:
            super().write(tamper(data))

    async def connect(_host, _port):
        return to_node, Tampered(to_service)

    async def default(each):
        heard.append(each)
        return Answer(reason="heard")

    monkeypatch.setattr(wire.asyncio, "open_connection", connect)
    service = asyncio.ensure_future(wire.serve(to_service, Pipe(to_node), MASTER, handle or default, read_timeout=2.0))
    asked = wire.ask("127.0.0.1:1", node, key or wire.node_key(MASTER, node), message, timeout=2.0)
    answer = await asyncio.gather(asked, service, return_exceptions=True)
    return answer[0], answer[1], heard


@pytest.mark.parametrize(
    "message",
    [
        REPORT,
        LogReport("n1", JobStay("12", None, 2.0), (), ("x: no",)),
        Leave("n1", BOOT, "prolog", (xid79("n1"),), "12"),
    ],
)
def test_every_kind_of_message_arrives_as_it_was_sent(monkeypatch, message):
    answer, _, heard = asyncio.run(talk(monkeypatch, message))

    assert heard == [message]
    assert answer == Answer(reason="heard")


def test_a_node_without_its_key_is_refused(monkeypatch):
    answer, refusal, heard = asyncio.run(talk(monkeypatch, REPORT, key=b"x" * 64))

    assert isinstance(answer, WireError)
    assert "did not prove it" in str(refusal)
    assert heard == []


def test_a_node_cannot_speak_for_another(monkeypatch):
    _, refusal, heard = asyncio.run(talk(monkeypatch, REPORT, node="n2"))

    assert str(refusal) == "n2 tried to speak for n1"
    assert heard == []


def test_one_nodes_key_does_not_open_another_name():
    assert wire.node_key(MASTER, "n1") != wire.node_key(MASTER, "n2")


def test_a_changed_message_is_refused(monkeypatch):
    _, refusal, heard = asyncio.run(
        talk(monkeypatch, REPORT, tamper=lambda data: data.replace(b'"job":"12"', b'"job":"13"'))
    )

    assert isinstance(refusal, WireError)
    assert heard == []


def test_a_recorded_conversation_cannot_be_played_again(monkeypatch):
    said: list[bytes] = []
    asyncio.run(talk(monkeypatch, REPORT, tamper=lambda data: (said.append(data), data)[1]))

    async def replay():
        reader, out = asyncio.StreamReader(), asyncio.StreamReader()
        reader.feed_data(b"".join(said))
        heard: list[object] = []

        async def handle(each):
            heard.append(each)
            return Answer()

        with pytest.raises(WireError, match="did not prove it"):
            await wire.serve(reader, Pipe(out), MASTER, handle, read_timeout=1.0)
        return heard

    assert asyncio.run(replay()) == []


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"GET / HTTP/1.1\r\n", id="another protocol"),
        pytest.param(b"n1 99999999 abc\n", id="too long"),
        pytest.param(b"n1 " + b"9" * 6000 + b" abc\n", id="an enormous length"),
        pytest.param("n1 ² abc\n".encode(), id="a digit that is no number"),
        pytest.param(b"n1 -5 abc\n", id="a negative length"),
        pytest.param(b"\xff\xfe\n", id="bad text"),
        pytest.param(b"n1 10 abc\n123", id="half a message"),
        pytest.param(b"x" * 70_000, id="a line without end"),
    ],
)
def test_nonsense_is_refused_and_nothing_is_handled(said):
    async def run():
        reader, out = asyncio.StreamReader(), asyncio.StreamReader()
        reader.feed_data(said)
        reader.feed_eof()

        async def handle(_):
            raise AssertionError("nothing may be handled")

        with pytest.raises(WireError):
            await wire.serve(reader, Pipe(out), MASTER, handle, read_timeout=1.0)

    asyncio.run(run())


def test_a_peer_that_says_nothing_is_cut_off():
    async def run():
        async def handle(_):
            raise AssertionError("nothing may be handled")

        with pytest.raises(WireError, match="in time"):
            await wire.serve(asyncio.StreamReader(), Pipe(asyncio.StreamReader()), MASTER, handle, read_timeout=0.01)

    asyncio.run(run())


def test_an_answer_that_the_service_did_not_sign_is_refused(monkeypatch):
    async def run():
        to_node = asyncio.StreamReader()
        body = codec.dumps(Answer(out=True)).encode()
        to_node.feed_data(b"WT1 0011\n" + f"{len(body)} {'0' * 64}\n".encode() + body)

        async def connect(_host, _port):
            return to_node, Pipe(asyncio.StreamReader())

        monkeypatch.setattr(wire.asyncio, "open_connection", connect)
        with pytest.raises(WireError, match="not signed"):
            await wire.ask("127.0.0.1:1", "n1", b"k" * 64, REPORT, timeout=1.0)

    asyncio.run(run())


def test_a_short_or_missing_key_is_a_clear_error(tmp_path):
    (tmp_path / "short").write_text("abc\n")

    with pytest.raises(WireError, match="holds 3 bytes"):
        wire.read_key(tmp_path / "short")
    with pytest.raises(WireError, match="cannot be read"):
        wire.read_key(tmp_path / "none")


@pytest.mark.parametrize(
    "message",
    [
        Report("n1", BOOT, JobStay("12", 1.0, 2.0), (xid79("n2"),)),
        Leave("n1", BOOT, "epilog", (xid79("n1"), xid79("n2")), "12"),
        LogReport("n1", JobStay("12", 1.0, 2.0), (xid79("n2"),)),
        Health("n1", BOOT, State.FAIL, 1.0, (xid79("n2"),)),
    ],
    ids=lambda message: message.kind,
)
def test_a_node_cannot_bring_evidence_of_another(monkeypatch, message):
    _, refusal, heard = asyncio.run(talk(monkeypatch, message))

    assert (str(refusal), refusal.kind) == ("n1 tried to bring evidence of n2", "foreign")
    assert heard == []


def test_what_the_gate_refuses_is_not_read(monkeypatch):
    async def run():
        reader, out = asyncio.StreamReader(), asyncio.StreamReader()
        reader.feed_data(f"n1 {len(BODY)} {'0' * 64}\n".encode() + BODY)
        asked = []

        def admit(node, size):
            asked.append((node, size))
            raise WireError("too much", kind="rate")

        async def handle(_):
            raise AssertionError("nothing may be handled")

        monkeypatch.setattr(wire, "_mac", lambda *_: "0" * 64)
        with pytest.raises(WireError, match="too much"):
            await wire.serve(reader, Pipe(out), MASTER, handle, 1.0, wire.Gate(admit=admit))
        return asked

    assert asyncio.run(run()) == [("n1", len(BODY))]


@pytest.mark.parametrize(("size", "waits"), [(wire.LARGE_BODY, False), (wire.LARGE_BODY + 1, True)])
def test_large_bodies_wait_for_their_turn_and_small_ones_do_not(size, waits):
    """Nobody has proved anything while a body is read: it must not fill our memory."""

    async def run():
        reader, out = asyncio.StreamReader(), asyncio.StreamReader()
        reader.feed_data(f"n1 {size} {'0' * 64}\n".encode() + b"x" * size)

        async def handle(_):
            raise AssertionError("nothing may be handled")

        full = asyncio.Semaphore(0)
        with pytest.raises(WireError) as refused:
            await wire.serve(reader, Pipe(out), MASTER, handle, 0.2, wire.Gate(large=full))
        return refused.value.kind

    assert asyncio.run(run()) == ("time" if waits else "proof")


def test_who_proves_nothing_cannot_fill_the_log():
    async def run():
        reader, out = asyncio.StreamReader(), asyncio.StreamReader()
        reader.feed_data(b"n" * 60_000 + b"\x1b[31m 2 abc\nxx")
        with pytest.raises(WireError) as refused:
            await wire.serve(reader, Pipe(out), MASTER, None, 1.0)
        return str(refused.value)

    said = asyncio.run(run())
    assert len(said) < 200
    assert "\x1b" not in said
