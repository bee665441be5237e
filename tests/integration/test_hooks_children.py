"""The agent's child processes: their deadline, whose rights they have, and what they do not inherit."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
import time
from pathlib import Path

import pytest

from tests.integration.node import until
from wheeltapper_hooks.agent.processes import become, in_child, run_command

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


def test_a_commands_status_and_output_come_back():
    command = ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"]

    assert asyncio.run(run_command(command, {}, 5.0)) == (3, "out\nerr\n")


def test_a_command_is_killed_with_all_it_started_at_its_deadline(tmp_path):
    """Also when the command itself has ended, and only its child holds the output open."""
    command = ["/bin/sh", "-c", f"sleep 60 & echo $! >{tmp_path}/pid; sleep 60"]
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"did not end within 0\.3 s"):
        asyncio.run(run_command(command, {"PATH": "/usr/bin:/bin"}, 0.3))

    assert time.monotonic() - began < 1.0
    until(lambda: is_dead((tmp_path / "pid").read_text().strip()), "the end of the grandchild")


def is_dead(pid: str) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_command_that_is_not_there_is_an_error():
    with pytest.raises(FileNotFoundError):
        asyncio.run(run_command(["/nowhere/scontrol"], {}, 1.0))


def test_a_child_gets_a_deadline():
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(in_child(lambda: signal.pause() or b"", 0.3))

    assert time.monotonic() - began < 1.0


def test_a_child_that_fails_is_an_error_and_says_why(capfd):
    def work() -> bytes:
        raise RuntimeError("the reason")

    with pytest.raises(ChildProcessError):
        asyncio.run(in_child(work, 5.0))
    assert "RuntimeError: the reason" in capfd.readouterr().err


def test_a_large_result_comes_back_whole():
    assert len(asyncio.run(in_child(lambda: b"x" * (3 << 20), 5.0))) == 3 << 20


def test_a_child_inherits_no_open_file(tmp_path):
    with (tmp_path / "secret").open("w") as secret:
        assert secret.fileno() > 2
        told = asyncio.run(in_child(lambda: json.dumps(open_files()).encode(), 5.0))

    assert set(json.loads(told)) <= {"0", "1", "2", "3"}


def open_files() -> list[str]:
    # The folder's own descriptor is listed too, and is gone when it is looked for.
    return [each.name for each in list(Path("/proc/self/fd").iterdir()) if each.exists()]


@is_root
@pytest.mark.parametrize("user", ["nobody", "without a name"])
def test_a_child_that_became_a_user_has_none_of_roots_rights(user):
    known = pwd.getpwnam("nobody")
    uid, gid = (known.pw_uid, known.pw_gid) if user == "nobody" else (123_456, 123_456)

    def work() -> bytes:
        become(uid, gid)
        try:
            os.setuid(0)
        except PermissionError:
            back = False
        else:
            back = True
        return json.dumps([os.getresuid(), os.getresgid(), os.getgroups(), back]).encode()

    uids, gids, groups, back = json.loads(asyncio.run(in_child(work, 5.0)))
    assert uids == [uid] * 3
    assert gids == [gid] * 3
    assert 0 not in groups
    assert back is False
