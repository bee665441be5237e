"""An agent without any right to the kernel log reads it all the same, when somebody opens it for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.node import PATIENCE_S, Node, until


@pytest.fixture
def opener(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    """The opener of the node's kernel log; the agent is configured to ask it."""
    # A socket's path has room for 107 bytes.
    place = tmp_path_factory.mktemp("log") / "socket"
    node.configure(agent={"kmsg": str(place)})
    started = subprocess.Popen(
        [sys.executable, "-m", "wheeltapper_hooks.kernel_log_opener", str(node.kmsg_file), str(place)],
        stderr=subprocess.DEVNULL,
    )
    until(place.is_socket, "the socket")
    yield started
    started.terminate()
    started.wait(PATIENCE_S)


def test_what_was_handed_over_is_read_as_it_grows(node: Node, opener: subprocess.Popen[bytes]):
    node.start()
    until(lambda: node.state == "ok", "the first verdict")
    node.convict()

    assert node.log.count("The kernel log shows nvidia.xid.79:") == 1


def test_an_agent_goes_on_reading_when_the_opener_has_ended(node: Node, opener: subprocess.Popen[bytes]):
    node.start()
    until(lambda: node.state == "ok", "the first verdict")
    opener.terminate()
    opener.wait(PATIENCE_S)
    node.convict()


def test_a_log_that_cannot_be_opened_is_named_and_looked_for_again(node: Node, opener: subprocess.Popen[bytes]):
    node.kmsg_file.unlink()
    node.start()
    until(lambda: node.state == "unknown", "the verdict")

    assert "No such file or directory" in node.log
    assert str(node.kmsg_file) in node.log
    node.kmsg_file.touch()
    until(lambda: node.state == "ok", "the verdict once the log is there")


def test_the_opener_ends_at_once_when_it_is_told_to(opener: subprocess.Popen[bytes]):
    opener.terminate()

    assert opener.wait(PATIENCE_S) == 0


def test_the_privileged_part_imports_nothing_but_the_standard_library():
    source = Path("hooks/wheeltapper_hooks/kernel_log_opener.py").read_text()
    imported = [line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))]

    assert imported == ["__future__", "os", "signal", "socket", "sys", "pathlib"]
