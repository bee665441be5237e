"""What a hook does when there is no agent: the cheapest checks that can convict, and the one call that follows.

Loaded by the thin client, under its deadline, with the same few builtin modules. It knows one class of fault, a GPU
that only a reboot brings back, from one witness, the kernel's own log of this boot. It never convicts in observe mode,
nor on a node whose agent has never run: the mode, and whatever else it knows of the configuration, is in the settings
file that the agent left in the run directory.
"""

from __future__ import annotations

import posix
import time

from wheeltapper_hooks.kernel_faults import Fault, kernel_lines, open_faults

# Read by the type checker only: the real module costs more than everything else here together.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


COMMAND_S = 2.0
"""Deadline of one scontrol; against an idle controller it takes 5 ms."""

GUESSED_STAY_S = 1800.0
"""A job's stay on this node when its marker is gone: as long as the longest common collective timeout."""

OUT = ("DRAIN", "DOWN", "FAIL")
"""Parts of a Slurm node state that keep jobs off it."""


def read_pairs(path: str) -> dict[str, str]:
    """Return the KEY=value lines of the file at *path*; none when it cannot be read."""
    try:
        file = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
        text = posix.read(file, 1 << 16).decode("utf-8", "replace")
        posix.close(file)
    except OSError:
        return {}
    return {key: value for key, equals, value in (line.partition("=") for line in text.splitlines()) if equals}


def run(command: list[str], environment: dict[str, str], within: Callable[[float], None]) -> tuple[int, str]:
    """Return the exit status and output of *command*; it is killed, with all it started, after COMMAND_S.

    Raises:
        OSError: it cannot be started, or did not end in time.
    """
    within(COMMAND_S)
    output, its_output = posix.pipe()
    nothing = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
    files = [
        (posix.POSIX_SPAWN_DUP2, nothing, 0),
        (posix.POSIX_SPAWN_DUP2, its_output, 1),
        (posix.POSIX_SPAWN_DUP2, nothing, 2),
    ]
    child = posix.posix_spawn(command[0], command, environment, file_actions=files, setsid=True)
    posix.close(its_output)
    text = b""
    try:
        while chunk := posix.read(output, 1 << 16):
            text += chunk
        return posix.waitstatus_to_exitcode(posix.waitpid(child, 0)[1]), text.decode("utf-8", "replace")
    except TimeoutError:
        posix.killpg(child, 9)
        raise


def is_out(shown: str) -> bool:
    """True when ``scontrol show node -o`` shows a node that takes no jobs."""
    state = shown.partition(" State=")[2].partition(" ")[0]
    return any(word in state for word in OUT)


def is_foreign(shown: str) -> bool:
    """True when the node was taken out with a reason that is not ours, and which nobody may overwrite."""
    reason = shown.partition(" Reason=")[2]
    return is_out(shown) and bool(reason) and not reason.startswith("wheeltapper: ")


def drain(settings: dict[str, str], node: str, reason: str, within: Callable[[float], None]) -> str:
    """Take *node* out of service with *reason*, unless it is out already; return half a sentence on what came of it."""
    scontrol = settings.get("scontrol") or "/usr/bin/scontrol"
    environment = {"PATH": "/usr/bin:/bin"}
    if "slurm_conf" in settings:
        environment["SLURM_CONF"] = settings["slurm_conf"]
    try:
        status, shown = run([scontrol, "show", "node", node, "-o"], environment, within)
        if status != 0:
            return f"scontrol does not know the node's state (exit status {status}), so its reason is left alone"
        if is_out(shown):
            whose = "somebody else" if is_foreign(shown) else "us"
            return f"the node was taken out by {whose} already"
        # State and Reason in one call: Slurm throws a reason without a state away on a healthy node.
        update = [scontrol, "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}"]
        status, _ = run(update, environment, within)
    except OSError as error:
        return f"scontrol failed ({error})"
    return "the node is drained" if status == 0 else f"scontrol refused to drain the node (exit status {status})"


def job_id(environment: dict[bytes, bytes]) -> str:
    """Return the job's id; empty for one that is no number and must not become part of a path."""
    job = environment.get(b"SLURM_JOB_ID", b"")
    return job.decode() if job.isdigit() else ""


def boot_id() -> str:
    """Return the id of this boot of the kernel."""
    file = posix.open("/proc/sys/kernel/random/boot_id", posix.O_RDONLY | posix.O_CLOEXEC)
    text = posix.read(file, 64).decode().strip()
    posix.close(file)
    return text


def write_marker(path: str, environment: dict[bytes, bytes]) -> None:
    """Leave the marker from which the epilog learns when the job's stay began; without one it guesses."""
    uid, gpus = (
        environment.get(name, b"").decode("utf-8", "replace") for name in (b"SLURM_JOB_UID", b"SLURM_JOB_GPUS")
    )
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        file = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_CLOEXEC, 0o600)
        posix.write(file, f"uptime={uptime:.6f}\nboot_id={boot_id()}\nuid={uid}\ngpus={gpus}\n".encode())
        posix.close(file)
    except OSError:
        pass


def remove_marker(path: str) -> None:
    """Forget the job."""
    try:  # noqa: SIM105 - contextlib costs an import
        posix.unlink(path)
    except OSError:
        pass


def stay_began(marker: dict[str, str], environment: dict[bytes, bytes]) -> float:
    """Return when the job's stay on this node began, in seconds since boot; guessed when there is no trace of it."""
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    if marker.get("boot_id") == boot_id():
        try:
            return float(marker["uptime"])
        except (KeyError, ValueError):
            pass  # cut short by a full disk
    started = environment.get(b"SLURM_JOB_START_TIME", b"")  # from Slurm 23.02
    return now - (time.time() - int(started)) if started.isdigit() else now - GUESSED_STAY_S


def against(settings: dict[str, str], since: float) -> list[Fault]:
    """Return the open faults from *since*, in seconds since boot, on; without those that a person has settled.

    Raises:
        OSError: the kernel log cannot be read.
    """
    settled = settings.get("settled", "").split(",") if settings.get("boot_id") == boot_id() else []
    slept = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()  # the kernel log's clock stops in suspend
    return [
        fault
        for fault in open_faults(kernel_lines(settings.get("kmsg") or "/dev/kmsg"))
        if fault.usec / 1e6 + slept >= since and str(fault.sequence) not in settled
    ]


def answer(
    hook: str, run_dir: str, environment: dict[bytes, bytes], within: Callable[[float], None]
) -> tuple[int, str]:
    """Return the exit code and a sentence for *hook*; *within* arms the deadline.

    Raises:
        OSError: the kernel log cannot be read, or the deadline passed before it was.
    """
    settings = read_pairs(f"{run_dir}/settings")
    if b"SLURM_CONF" in environment:  # slurmd names it
        settings.setdefault("slurm_conf", environment[b"SLURM_CONF"].decode("utf-8", "replace"))
    job = job_id(environment) if hook != "healthcheck" else ""
    marker = f"{run_dir}/jobs/{job}"
    since = 0.0
    if hook == "prolog" and job:
        write_marker(marker, environment)
    if hook == "epilog":
        since = stay_began(read_pairs(marker) if job else {}, environment)
        if job:
            remove_marker(marker)
    faults = against(settings, since)
    if not faults:
        return 0, "passed: the kernel log shows no fault that needs a reboot"
    reason = faults[0].reason(job)
    if settings.get("mode") not in {"quarantine", "full"}:
        return 0, f"passed: outside the modes quarantine and full nobody is kept off ({reason})"
    node = settings.get("node") or environment.get(b"SLURMD_NODENAME", b"").decode("utf-8", "replace")
    return 1, f"{reason} ({drain(settings, node, reason, within)})"
