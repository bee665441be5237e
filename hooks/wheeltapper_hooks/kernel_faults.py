"""The reboot class of GPU faults, read from the kernel log with builtin modules: for a hook without an agent.

The agent reads the same log with the whole catalogue; a test holds the two to the same answer for this class.
"""

from __future__ import annotations

import posix
import time

# Read by the type checker only: the real module costs more than everything else here together.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REBOOTS = {0x2, 0x7}
"""Values of Xid 154 that ask for a reboot: 2 of the node, 7 of the system (NVML field 230, recovery action)."""

NEW_AFTER_USEC = 300_000_000
"""Quiet after which the same fault on the same GPU counts as a new one; ``wheeltapper.checks.open_faults`` says why."""


class Fault:
    """A GPU that only a reboot brings back. ``usec`` counts from boot, on the clock of CLOCK_MONOTONIC."""

    def __init__(self, label: str, detail: str, gpu: str, sequence: int, usec: int) -> None:
        self.label = label
        self.detail = detail
        self.gpu = gpu
        self.sequence = sequence
        self.usec = usec

    def reason(self, job: str) -> str:
        """Return the node's reason, in the grammar of ``wheeltapper.policy.reason`` (a test holds the two together)."""
        at = time.gmtime(time.time() - time.monotonic() + self.usec / 1e6)
        parts = [self.label, self.detail, self.gpu and f"gpu={self.gpu}", job and f"job={job}"]
        parts.append(time.strftime("at=%Y-%m-%dT%H:%M:%SZ: reboot", at))
        return "wheeltapper: " + " ".join(part for part in parts if part)


def kernel_lines(path: str) -> Iterator[str]:
    """Yield the lines of the kernel log at *path*, the character device or a plain file, from its start to now.

    Raises:
        OSError: the log cannot be read.
    """
    log = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
    rest = b""
    while True:
        try:
            chunk = posix.read(log, 1 << 16)
        except BlockingIOError:  # the device has no more
            break
        except BrokenPipeError:  # the kernel wrote over what we had not read; it goes on with the oldest line
            continue
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
    posix.close(log)


def kernel_record(line: str) -> tuple[int, int, str] | None:
    """Return sequence, microseconds since boot and text of a line that the kernel itself wrote; None for any other.

    The kernel forces facility 1 or more on what user space writes: facility 0 cannot be forged.
    """
    head, semicolon, text = line.partition(";")
    numbers = head.split(",")[:3]
    if not semicolon or len(numbers) < 3 or not all(number.isdigit() for number in numbers):
        return None
    priority, sequence, usec = (int(number) for number in numbers)
    return None if priority >> 3 else (sequence, usec, text)


def pci_address(text: str) -> str:
    """Return the first PCI address in *text* as ``dddd:bb:dd``; empty when it holds none."""
    for word in text.replace("(", " ").replace(")", " ").replace("PCI:", " ").split():
        parts = word.rstrip(":.,").partition(".")[0].split(":")
        if len(parts) == 3 and [len(part) for part in parts[1:]] == [2, 2] and len(parts[0]) in {4, 8}:
            try:
                domain, bus, device = (int(part, 16) for part in parts)
            except ValueError:
                continue
            return f"{domain:04x}:{bus:02x}:{device:02x}"
    return ""


def xid(text: str) -> int | None:
    """Return the Xid number in the driver's line *text*: ``NVRM: Xid (PCI:0000:3b:00): 79, …``."""
    if not text.startswith("NVRM: Xid ("):
        return None
    number = text.partition("): ")[2].partition(",")[0].strip()
    return int(number) if number.isdigit() else None


def recovery_action(text: str) -> int | None:
    """Return the new value in the text of an Xid 154, ``… changed from 0x0 (…) to 0x2 (…)``; its words vary."""
    value = text.partition(" to 0x")[2].partition(" ")[0]
    try:
        return int(value, 16)
    except ValueError:
        return None


def open_faults(lines: Iterable[str]) -> list[Fault]:
    """Return the faults in the kernel's *lines* that nothing later in them clears, one per GPU, the earliest first.

    Of several on one GPU it is the first of the newest burst, so that a fault after a person's release counts again.
    An Xid 79 whose GPU the driver also calls lost in its other words bears the label of these.
    """
    lost: dict[str, Fault] = {}
    latest: dict[str, int] = {}
    advised: dict[str, Fault] = {}
    called_lost = set()
    for line in lines:
        record = kernel_record(line)
        if record is None or not record[2].startswith("NVRM: "):
            continue
        sequence, usec, text = record
        gpu = pci_address(text)
        code = xid(text)
        if code == 79 or (code is None and "fallen off the bus" in text):
            if code is None:
                called_lost.add(gpu)
            if gpu not in lost or usec - latest[gpu] > NEW_AFTER_USEC:
                lost[gpu] = Fault("hardware/gpu_xid", "xid=79" if code else "", gpu, sequence, usec)
            latest[gpu] = usec
        elif code == 154:
            action = recovery_action(text)
            advised.pop(gpu, None)
            if action in REBOOTS:
                advised[gpu] = Fault("hardware/gpu_xid", "xid=154", gpu, sequence, usec)
            elif action == 0:
                lost.pop(gpu, None)
    for gpu in called_lost & lost.keys():
        lost[gpu].label = "hardware/gpu_lost"
    return sorted({**advised, **lost}.values(), key=lambda fault: fault.sequence)
