"""Child processes with a deadline, without threads: a command, or a piece of work under another user.

The interpreter's own asyncio subprocesses need a thread per child or a kernel with pidfds, depending on its version.
Here a child is done when it closes its output, and is reaped by polling.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import subprocess
import traceback
from collections.abc import Callable, Mapping, Sequence

POLL_S = 0.005

REAP_S = 1.0
"""How long an ended or killed child is waited for. One that hangs in a dead file system is left behind."""

_left_behind: list[int] = []


class LeftBehind(TimeoutError):  # noqa: N818 - it says what became of the child
    """A child hangs in the kernel: it was killed and has not died. ``pid`` is its process id."""

    def __init__(self, writer: str, pid: int) -> None:
        """Say that *writer*, the process *pid*, is left behind."""
        super().__init__(f"{writer} (process {pid}) hangs and cannot be killed")
        self.pid = pid


async def run_command(command: Sequence[str], environment: Mapping[str, str], deadline: float) -> tuple[int, str]:
    """Return the exit status and output of *command*; it is killed, with all it started, after *deadline* seconds.

    Raises:
        OSError: it cannot be started, or did not end in time.
    """
    output, its_output = os.pipe()
    try:
        child = subprocess.Popen(  # noqa: ASYNC220 - it starts in a millisecond, and is not waited for here
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=its_output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError:
        os.close(output)
        raise
    finally:
        os.close(its_output)
    try:
        text = await _read_all(output, deadline, command[0])
    except (TimeoutError, asyncio.CancelledError):
        os.killpg(child.pid, signal.SIGKILL)
        raise
    finally:
        status = await _reap(child.pid)
        child.returncode = status  # it is reaped, and Popen need not look after it
    if status is None:
        raise TimeoutError(f"{command[0]} closed its output and did not end")
    return status, text.decode("utf-8", "replace")


async def in_child(work: Callable[[], bytes], deadline: float) -> bytes:
    """Return what *work* returns in a forked child, which is killed, with all it started, after *deadline* seconds.

    Raises:
        LeftBehind: it did not end in time, and cannot be killed.
        OSError: the child failed, or did not end in time.
    """
    output, its_output = os.pipe()
    child = os.fork()
    if child == 0:
        _work_and_exit(work, its_output)
    os.close(its_output)
    with contextlib.suppress(OSError):  # it may have done so itself
        os.setpgid(child, child)
    try:
        result = await _read_all(output, deadline, "the child")
    except asyncio.CancelledError:
        os.killpg(child, signal.SIGKILL)
        await _reap(child)
        raise
    except TimeoutError as error:
        os.killpg(child, signal.SIGKILL)
        if await _reap(child) is None:
            raise LeftBehind("the child", child) from error
        raise
    if await _reap(child) is None:
        raise LeftBehind("the child", child)
    if not result:
        raise ChildProcessError("the child failed")
    return result


def is_left_behind(pid: int) -> bool:
    """True while the child *pid*, which could not be killed, still lives."""
    _look_back()
    return pid in _left_behind


def become(uid: int, gid: int) -> None:
    """Give up root for user *uid* with all of that user's groups, for good.

    Raises:
        PermissionError: we are neither root nor that user.
    """
    if os.geteuid() != 0:
        if os.geteuid() != uid:
            raise PermissionError(f"only root can read as user {uid}")
        return
    try:
        os.initgroups(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:  # the node does not know the user by name
        os.setgroups([gid])
    os.setgid(gid)
    os.setuid(uid)


def _work_and_exit(work: Callable[[], bytes], output: int) -> None:
    """Run in the child: let go of all that was the parent's, and never return into its event loop."""
    status = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(output, 3)
        os.closerange(4, 65_536)
        with open(3, "wb") as file:
            file.write(work())
        status = 0
    except Exception:  # noqa: BLE001 - the process boundary
        os.write(2, traceback.format_exc().encode())  # nothing flushes a buffer here
    finally:
        os._exit(status)


async def _read_all(fd: int, deadline: float, writer: str) -> bytes:
    """Return everything until *writer* has closed *fd*, and close it; raise ``TimeoutError`` after *deadline*."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0)
    )
    try:
        return await asyncio.wait_for(reader.read(), deadline)
    except asyncio.TimeoutError as error:
        raise TimeoutError(f"{writer} did not end within {deadline:g} s") from error
    finally:
        transport.close()


async def _reap(child: int) -> int | None:
    """Return the exit status of *child* (negative: the signal that ended it); None when it will not die."""
    _look_back()
    for _ in range(int(REAP_S / POLL_S)):
        ended = _ended(child)
        if ended:
            return os.waitstatus_to_exitcode(ended[1])
        await asyncio.sleep(POLL_S)
    os.kill(child, signal.SIGKILL)
    _left_behind.append(child)
    return None


def _look_back() -> None:
    _left_behind[:] = [each for each in _left_behind if not _ended(each)]


def _ended(child: int) -> tuple[int, int] | None:
    """Return process id and wait status of *child*; None while it lives."""
    pid, status = os.waitpid(child, os.WNOHANG)
    return (pid, status) if pid else None
