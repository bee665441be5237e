"""Nodes that prove themselves by MUNGE: a real munged, the real wire, and every way in which a credential can be wrong."""

from __future__ import annotations

import asyncio
import os
import pwd
import time

import pytest

from tests.integration.munged import MUNGED, Munged
from tests.integration.node import until
from tests.unit.slurm.fake import FakeSlurm, node
from wheeltapper import munge, wire
from wheeltapper.config import ControllerSection
from wheeltapper.errors import WireError
from wheeltapper.verdict import State
from wheeltapper.wire import Answer, Health
from wheeltapper_hooks.agent.controller import Controller
from wheeltapper_slurm.credentials import Credentials

pytestmark = pytest.mark.skipif(MUNGED is None, reason="munged is not installed here (Debian: apt-get install munge)")
HERE = ("127.0.0.1", 40_000)
KEY = b"k" * wire.SESSION_KEY
HEALTH = Health("n1", "boot", State.OK, 60.0)


@pytest.fixture(scope="module")
def munged():
    daemon = Munged()
    yield daemon
    daemon.close()


def slurm(address="127.0.0.1"):
    return FakeSlurm(node("n1", hosts=(address, "localhost")))


def section(munged, tmp_path, **changes):
    me = pwd.getpwuid(os.geteuid()).pw_name
    values = {"key_file": tmp_path / "key", "user": me, "munge_socket": munged.socket, **changes}
    return ControllerSection(**values)


def opened(munged, credential, name="n1", peer=HERE, client=None):
    """What the service makes of *credential*."""

    async def open_it():
        credentials = Credentials(client or slurm(), munged.socket)
        try:
            return await credentials.open(name, credential, peer)
        finally:
            credentials.close()

    return asyncio.run(open_it())


async def asked(munged, section, client=None, master=None):
    """What node n1 is told, configured as in *section*, and what the service says of it."""
    heard, refused = [], []

    async def hear(message):
        heard.append(message)
        return Answer(reason="heard")

    credentials = Credentials(client or slurm(), munged.socket)

    async def connected(reader, writer):
        try:
            await wire.serve(reader, writer, master, hear, 5.0, wire.Gate(opened=None if master else credentials.open))
        except WireError as error:
            refused.append(str(error))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    controller = Controller(section.model_copy(update={"address": f"{host}:{port}"}), "n1")
    answer = await controller.ask(HEALTH, 5.0)
    server.close()
    credentials.close()
    return answer, heard, refused


def test_a_node_without_a_key_file_speaks_by_munge(munged, tmp_path):
    answer, heard, refused = asyncio.run(asked(munged, section(munged, tmp_path)))

    assert (answer, heard, refused) == (Answer(reason="heard"), [HEALTH], [])


def test_a_node_speaks_for_itself_only(munged, tmp_path):
    """Its name is another node's: that one's address is not where the credential was made."""
    told = asyncio.run(asked(munged, section(munged, tmp_path), FakeSlurm(node("n1", hosts=("192.0.2.7",)))))

    assert told[:2] == (None, [])
    assert told[2] == ["a credential of 'n1' was made on 127.0.0.1, and that node's address is 192.0.2.7"]


def test_a_name_that_slurmctld_does_not_know_is_nobodys(munged):
    with pytest.raises(WireError, match=r"made on 127\.0\.0\.1, and that node's address is not known"):
        opened(munged, munge.encode(KEY, os.geteuid(), munged.socket), name="n9")


def test_a_credential_that_was_made_on_another_host_is_refused(munged):
    other = Munged(munged.key, origin="192.0.2.1")
    try:
        credential = munge.encode(KEY, os.geteuid(), other.socket)
    finally:
        other.close()

    with pytest.raises(WireError, match=r"made on 192\.0\.2\.1"):
        opened(munged, credential)


def test_a_credential_that_is_sent_from_another_host_is_refused(munged):
    with pytest.raises(WireError, match=r"sent from 192\.0\.2\.9"):
        opened(munged, munge.encode(KEY, os.geteuid(), munged.socket), peer=("192.0.2.9", 40_000))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_an_ordinary_user_of_the_node_is_refused(munged):
    credential = munged.credential(KEY, "--restrict-uid=0", user="nobody")

    with pytest.raises(WireError, match="user 65534 tried to speak for 'n1'"):
        opened(munged, credential)


def test_a_credential_opens_once(munged):
    credential = munge.encode(KEY, os.geteuid(), munged.socket)

    assert opened(munged, credential) == KEY
    with pytest.raises(WireError, match="Replayed credential"):
        opened(munged, credential)


def test_an_expired_credential_is_refused(munged):
    credential = munged.credential(KEY, "--ttl=1")
    made = time.time()
    until(lambda: time.time() > made + 2.5, "the credential to expire")

    with pytest.raises(WireError, match="Expired credential"):
        opened(munged, credential)


@pytest.mark.parametrize("credential", ["", "hello", "MUNGE:AwQFAAD0:", "MUNGE:\u00e9\u0000:", "MUNGE:" + "A" * 5000])
def test_garbage_is_refused(munged, credential):
    with pytest.raises(WireError, match=r"MUNGE refuses|characters"):
        opened(munged, credential)


def test_a_credential_that_holds_no_key_is_refused(munged):
    with pytest.raises(WireError, match="holds 5 bytes and no key"):
        opened(munged, munged.credential(b"short"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_what_was_made_for_the_service_nobody_else_can_open(munged):
    credential = munge.encode(KEY, 65_534, munged.socket)

    with pytest.raises(WireError, match="Unauthorized credential"):
        munge.decode(credential, munged.socket)


def test_a_message_that_was_changed_on_its_way_is_refused(munged):
    """Whoever takes a credential off the wire cannot open it, and cannot sign another message with its key."""

    async def change():
        credentials = Credentials(slurm(), munged.socket)
        refused = []

        async def connected(reader, writer):
            try:
                await wire.serve(reader, writer, None, lambda _: None, 5.0, wire.Gate(opened=credentials.open))
            except WireError as error:
                refused.append(str(error))

        server = await asyncio.start_server(connected, *HERE[:1], 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await reader.readline()
        credential = munge.encode(KEY, os.geteuid(), munged.socket)
        writer.write(f"n1 2 {'0' * 64} {credential}\n".encode() + b"{}")
        assert await reader.read() == b""
        writer.close()
        server.close()
        credentials.close()
        return refused

    assert asyncio.run(change()) == ["a peer that calls itself 'n1' did not prove it"]


def test_service_and_nodes_must_agree_on_the_proof(munged, tmp_path):
    by_munge = section(munged, tmp_path)
    (tmp_path / "node-key").write_bytes(wire.node_key(b"m" * 32, "n1"))
    by_key = section(munged, tmp_path, key_file=tmp_path / "node-key")

    assert asyncio.run(asked(munged, by_munge, master=b"m" * 32))[2] == [
        "'n1' came with a MUNGE credential, and this service takes no such proof"
    ]
    assert asyncio.run(asked(munged, by_key))[2] == [
        "'n1' came with a key of a key file, and this service takes no such proof"
    ]
    assert asyncio.run(asked(munged, by_key, master=b"m" * 32))[0] == Answer(reason="heard")


def test_while_slurmctld_is_away_its_last_word_on_addresses_counts(munged):
    async def twice():
        client = slurm()
        credentials = Credentials(client, munged.socket)
        for _ in range(2):
            assert await credentials.open("n1", munge.encode(KEY, os.geteuid(), munged.socket), HERE) == KEY
            client.down = True
        credentials.close()

    asyncio.run(twice())


def test_a_munged_that_hangs_holds_up_nobody_but_the_asker(munged, tmp_path):
    """The agent's own deadline ends the question, and its loop goes on meanwhile."""
    controller = Controller(section(munged, tmp_path), "n1")

    async def look_on():
        ticks = 0
        question = asyncio.ensure_future(controller.ask(HEALTH, 0.3))
        while not question.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return ticks, question.result()

    munged.pause()
    try:
        ticks, answer = asyncio.run(look_on())
    finally:
        munged.resume()

    assert ticks > 3
    assert answer is None
    assert controller.said == "The controller service gave no answer: munged made no credential in time."


def test_without_munged_and_without_a_key_there_is_no_service_to_ask(munged, tmp_path):
    controller = Controller(section(munged, tmp_path, munge_socket=tmp_path / "none"), "n1")

    assert not controller.exists
    assert controller.said == (
        f"No controller service is asked, because there is no key file {tmp_path / 'key'}, and no MUNGE."
    )
