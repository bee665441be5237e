"""``wheeltapper slurm check`` on files of its own and a service that is there or not."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.integration.service import Service
from wheeltapper.config import ControllerSection
from wheeltapper.wire import Answer
from wheeltapper_slurm import surroundings


@pytest.fixture
def around(tmp_path):
    """Look around a controller whose files are right, changed as the test says."""
    (tmp_path / "spool" / "ended").mkdir(parents=True)
    (tmp_path / "spool" / "ended").chmod(0o700)
    key = tmp_path / "key"
    key.write_text("k" * 64)
    key.chmod(0o600)
    service = Service(lambda _: Answer())

    def look(change=lambda folder: None, address=None, user=None):
        change(tmp_path)
        section = ControllerSection(
            address=address or service.address,
            key_file=key,
            spool_dir=tmp_path / "spool",
            munge_socket=tmp_path / "munge",
        )
        return asyncio.run(surroundings.look(section, user or f"me({os.getuid()})"))

    yield look
    service.close()


def test_all_is_right(around):
    assert around() == surroundings.Surroundings()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "key").chmod(0o640), "mode 0640"),
        (lambda folder: (folder / "key").write_text("short"), "at least 32"),
        (lambda folder: (folder / "key").unlink(), "openssl rand"),
    ],
)
def test_a_key_that_is_missing_short_or_open_to_others_is_told(around, change, words):
    assert words in around(change).key


@pytest.mark.parametrize(
    ("change", "user", "words"),
    [
        (lambda folder: (folder / "spool" / "ended").rmdir(), "x(0)", "no end of a job can be left there"),
        (lambda folder: (folder / "spool" / "ended").chmod(0o777), f"x({os.getuid()})", "invent ends of jobs"),
        (lambda folder: None, "slurm(64030)", "not to SlurmUser (64030)"),
    ],
)
def test_a_spool_folder_that_slurm_cannot_use_or_others_can_is_told(around, change, user, words):
    assert words in around(change, user=user).spool


def test_a_service_that_is_away_is_told(around):
    assert "is wheeltapper-controller.service running?" in around(address="127.0.0.1:9").service


def test_something_else_on_the_services_port_is_told(around):
    async def play():
        async def other(_reader, writer):
            writer.write(b"SSH-2.0-OpenSSH\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(other, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        said = await surroundings._service(f"127.0.0.1:{port}")
        server.close()
        return said

    assert "is not the controller service" in asyncio.run(play())
