"""The thin client: what a hook's stub runs when the verdict file cannot answer.

``python3 -I -S client.py prolog|epilog|healthcheck`` asks the resident agent over its socket. Exit code 100 says that
the agent found this machine guilty, on positive hardware evidence; everything else, and every trouble of our own,
is 0. The stub makes Slurm's exit code of it.

It starts once per job and node, so it costs what Python costs: builtin modules only, which is also why it has no
``from __future__ import annotations`` (that line reads a file) and leaves without the interpreter's clean-up.

The question is the hook's name, the SLURM variables as KEY=value lines, and an empty line. The answer is any number
of lines ``wait SECONDS`` (the agent is alive, and at something that takes longer) and then ``CODE SENTENCE``.
"""

import _signal  # type: ignore[import-not-found]  # `signal` itself costs an import of enum
import _socket
import posix
import sys
import time

GUILTY = 100
"""Not 1 or 2, with which Python itself ends on trouble of its own, nor 126 and more, which are the shell's."""

SILENCE_S = 2.0
"""An agent that has not said a word by now is taken for dead; a healthy one answers within milliseconds."""

ASK_S = 5.0
"""The longest that an agent may make us wait."""

TOTAL_S = 5.8
"""The whole run: under the 6 s of the design, and so under Slurm's notice of a hung prolog at 8 s."""

NOTE_S = 0.2
"""To write a line or two: what was found must not be lost to the deadline of what came before."""

LOG_BYTES = 256 << 10
"""hooks.log is turned over at this size, once: /run is memory."""

VALUE_BYTES = 4096
"""A longer variable (a user's job comment) is left out: the agent needs none of them."""

ANSWER_BYTES = 64 << 10


def _late(_signal_number: int, _frame: object) -> None:
    raise TimeoutError("the deadline is past")


def arm(seconds: float) -> None:
    """Raise ``TimeoutError`` wherever the program stands, *seconds* from now."""
    _signal.setitimer(_signal.ITIMER_REAL, max(seconds, 0.001))


def question(hook: str, environment: dict[bytes, bytes]) -> bytes:
    """Return what is sent to the agent. Users write some values (a job's comment), so no value may add a line."""
    lines = [
        name + b"=" + value.replace(b"\n", b" ")
        for name, value in environment.items()
        if name.startswith(b"SLURM") and b"\n" not in name and len(value) <= VALUE_BYTES
    ]
    return b"\n".join([hook.encode(), *lines, b"", b""])


def ask(run_dir: str, asked: bytes, started: float) -> tuple[int, str]:
    """Return the agent's exit code and sentence.

    Raises:
        OSError: there is no agent, it broke off, or the deadline passed.
        ValueError: what it says is not the protocol.
    """
    arm(SILENCE_S)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(f"{run_dir}/agent.sock")
    connection.sendall(asked)
    buffer = b""
    while len(buffer) < ANSWER_BYTES:
        line, newline, rest = buffer.partition(b"\n")
        if not newline:
            chunk = connection.recv(4096)
            if not chunk:
                raise ConnectionError("the agent broke off")
            buffer += chunk
            continue
        word, _, sentence = line.decode("utf-8", "replace").partition(" ")
        if word == "wait":
            arm(min(float(sentence), started + ASK_S - time.monotonic()))
            buffer = rest
            continue
        if word in {"0", "1"}:
            return int(word), sentence
        break
    raise ValueError(f"the agent does not speak the protocol: {buffer[:80]!r}")


def note(run_dir: str, hook: str, sentence: str) -> None:
    """Leave one line in hooks.log and in syslog. Where neither can be written there is nobody to tell."""
    line = f"{hook}[{posix.getpid()}]: {sentence}".replace("\n", " ")
    path = f"{run_dir}/hooks.log"
    try:
        log = posix.open(path, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
        posix.write(log, f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}\n".encode())
        if posix.fstat(log).st_size > LOG_BYTES:
            posix.replace(path, f"{path}.1")
    except OSError:
        pass
    try:
        syslog = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        syslog.setblocking(False)
        # 28: facility daemon (3 * 8), severity warning (4), RFC 5424 section 6.2.1.
        syslog.sendto(f"<28>wheeltapper-{line}".encode(), "/dev/log")
    except OSError:
        pass


def without_agent(hook: str, run_dir: str, started: float) -> tuple[int, str]:
    """Judge by the cheap checks in this process, within what is left of the deadline.

    Raises:
        OSError: the deadline passed before there was an answer.
    """
    sys.path.insert(0, __file__.rpartition("/")[0] + "/..")
    from wheeltapper_hooks import agentless  # noqa: PLC0415 - compiled on every start if it stood here

    def within(seconds: float) -> None:
        arm(min(seconds, started + TOTAL_S - time.monotonic()))

    within(TOTAL_S)
    return agentless.answer(hook, run_dir, posix.environ, within)


def run(hook: str, run_dir: str, started: float) -> int:
    """Return the exit code for *hook*, and leave a note when the agent could not be asked."""
    try:
        code, sentence = ask(run_dir, question(hook, posix.environ), started)
    except (OSError, ValueError) as error:
        code, sentence = without_agent(hook, run_dir, started)
        arm(NOTE_S)
        note(run_dir, hook, f"the agent could not be asked ({error}); {sentence}")
    if code != 1:
        return 0
    arm(NOTE_S)
    try:  # noqa: SIM105 - contextlib costs an import
        posix.write(1, f"{sentence}\n".encode())  # slurmd logs it beside "prolog failed"
    except OSError:
        pass  # nobody listens; the exit code says enough
    return GUILTY


def main() -> int:
    """Run the hook that the command line names; whatever goes wrong in here is our fault and exit code 0."""
    started = time.monotonic()
    hook = sys.argv[1]
    run_dir = posix.environ[b"WHEELTAPPER_RUN_DIR"].decode()
    _signal.signal(_signal.SIGALRM, _late)
    try:
        return run(hook, run_dir, started)
    except Exception as error:  # noqa: BLE001 - the process boundary
        arm(NOTE_S)
        note(run_dir, hook, f"passed, because the hook itself failed: {type(error).__name__}: {error}")
        return 0


if __name__ == "__main__":
    posix._exit(main())  # noqa: SLF001 - that is its name
