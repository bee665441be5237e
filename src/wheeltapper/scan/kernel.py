"""The kernel's own words: records of its log device, and kernel logs that were saved as files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo

from wheeltapper import kmsg
from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Evidence, Finding, Source
from wheeltapper.scan.blocks import Readable, telling_pieces
from wheeltapper.scan.clock import time_of
from wheeltapper.scan.finding import bounded, excerpt, finding, gpu_of
from wheeltapper.scan.text import printable

LINES = 40
"""Lines at the start of a file that tell whose it is."""

BOOT = "kernel.boot"
"""The signature of the line with which a boot begins."""


def scan_kernel(
    record: kmsg.Record, catalogue: Catalogue, *, node: str | None, boot_id: str | None, at: float | None
) -> tuple[Finding, ...]:
    """Return what *record* says; nothing when it is not the kernel's own (any user can write one). *at* is its time."""
    if record.facility != kmsg.KERNEL:
        return ()
    return tuple(
        finding(
            match,
            Evidence(
                source=Source.KERNEL,
                text=excerpt(record.text),
                at=at,
                node=node,
                boot_id=boot_id,
                sequence=record.sequence,
                gpu=gpu_of(match),
            ),
        )
        for match in catalogue.match(record.text, Source.KERNEL)
    )


def scan_kernel_log(
    stream: Readable, catalogue: Catalogue, *, file: str, node: str | None = None, zone: tzinfo | None = None
) -> Iterator[Finding]:
    """Yield what a saved kernel log says: dmesg in its forms, kern.log and the journal, or raw records.

    Lines that another program wrote into the same file are passed over. A saved log names no boot id: the boots in it
    are counted.
    """
    yield from bounded(
        _of_saved_log(stream, catalogue, file, node, zone),
        lambda each: (f"{each.signature} {each.evidence.gpu} {each.evidence.boot_id}", None, None),
        lambda each: each.evidence.line or 0,
    )


def _of_saved_log(
    stream: Readable, catalogue: Catalogue, file: str, node: str | None, zone: tzinfo | None
) -> Iterator[Finding]:
    boots = 0
    for line in telling_pieces(stream, lambda block: catalogue.ends(block, Source.KERNEL)):
        said = parse_line(printable(line.raw), zone)
        if said is None:
            continue
        for match in catalogue.match(said.text, Source.KERNEL):
            boots += match.signature == BOOT
            evidence = Evidence(
                source=Source.KERNEL,
                text=excerpt(said.text),
                at=said.at,
                node=said.host or node,
                boot_id=f"{file}#{boots}",
                gpu=gpu_of(match),
                file=file,
                line=line.number,
                offset=line.offset,
            )
            yield finding(match, evidence)


@dataclass(frozen=True, slots=True)
class KernelLine:
    """A line of a saved kernel log: the kernel's text, and time and host where the line tells them."""

    text: str
    at: float | None = None
    host: str | None = None


_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
"""As dmesg writes them in every locale, which strptime would not read in every locale."""

_CTIME = re.compile(r"\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ")
_UPTIME = re.compile(r"(?:<\d+>)?\[ *[+\d]\d*\.\d+\] ?")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? ")
_SYSLOG = re.compile(r"(?:[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d )?(?P<host>[\w.-]+) (?P<tag>[\w./@-]+)(?:\[\d+\])?: ")
_SYSLOG_TIME = re.compile(r"[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d ")
_UNDATED = re.compile(
    r"(?:(?P<host>[\w-]+)\S* )?(?P<tag>kernel|[\w./@-]+\[\d+\]): (?!segfault at |traps?: |potentially )"
)
"""A line of syslog whose time was cut off. The kernel itself writes of a program as ``name[pid]: segfault at``."""

_DRIVER = re.compile(
    r"NVRM: |nvidia[\w-]*: |mlx\d_\w+ |pcieport |EXT4-fs |XFS |EDAC |mce: |nvme |NFS: |nfs: |Lustre(?:Error)?: |"
    r"amdgpu |usb |systemd\[1\]: |oom-kill:|Out of memory: |Memory cgroup |INFO: task |BUG: |watchdog: |Linux version |"
    r"\[ {2}OK {2}\] |\[FAILED\] |<ConMan> |[\w.-]+ login: "
)
"""How lines of a kernel begin where ``dmesg -t`` left their time out, and what else stands on a node's console."""


def parse_line(line: str, zone: tzinfo | None = None) -> KernelLine | None:
    """Return the kernel's part of a *line* of a saved log, or None when another program wrote it.

    A time without an offset is of *zone*; a syslog time has no year and counts as unknown.
    """
    record = kmsg.parse_record(line)
    if record:
        return KernelLine(record.text) if record.facility == kmsg.KERNEL else None
    when = _CTIME.match(line)
    if when:
        return KernelLine(line[when.end() :], _ctime(when[1], zone))
    at: float | None = None
    stamp = _ISO.match(line)
    text = line[stamp.end() :] if stamp else line
    if stamp:
        at = time_of(stamp[0], zone)
    # dmesg writes the fraction after a comma and names neither host nor program; syslog and the journal name both.
    if (stamp and "," not in stamp[0] and not _UPTIME.match(text)) or _SYSLOG_TIME.match(text):
        sent = _SYSLOG.match(text)
        if not sent or sent["tag"] != "kernel":
            return None
        uptime = _UPTIME.match(text, sent.end())
        return KernelLine(text[uptime.end() if uptime else sent.end() :], at, sent["host"].partition(".")[0])
    uptime = _UPTIME.match(text)
    if uptime:
        return KernelLine(text[uptime.end() :], at)
    sent = _UNDATED.match(text)
    if not sent:
        return KernelLine(text, at)
    return KernelLine(text[sent.end() :], at, sent["host"]) if sent["tag"] == "kernel" else None


def _ctime(text: str, zone: tzinfo | None) -> float | None:
    try:
        month = _MONTHS.index(text[4:7]) // 3 + 1
        hour, minute, second = (int(part) for part in text[11:19].split(":"))
        return datetime(int(text[20:24]), month, int(text[8:10]), hour, minute, second, tzinfo=zone).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def looks_like_kernel(head: bytes) -> bool:
    """True when nearly all of the first lines of a file, *head*, carry the stamps of a kernel's or a system's log.

    A system's log counts when the kernel speaks in it at all: the lines of other programs are passed over later.
    """
    lines = _first_lines(head)
    speakers = [_speaker(line) for line in lines]
    stamped = sum(1 for speaker in speakers if speaker is not None)
    return "kernel" in speakers and stamped >= 0.8 * len(lines)


def may_be_kernel(head: bytes) -> bool:
    """True unless most of the first lines of a file, *head*, are neither stamped by a system nor a driver's words.

    For files that are named like a kernel's log: the name of a file is a hint, its content decides.
    """
    lines = _first_lines(head)
    known = sum(1 for line in lines if _speaker(line) is not None or _UPTIME.match(line) or _DRIVER.match(line))
    return 2 * known >= len(lines)


def _first_lines(head: bytes) -> list[str]:
    return [line for line in head.decode("utf-8", "replace").split("\n")[:LINES] if line.strip()]


_DMESG_STAMP = re.compile(r"(?:<\d+>)?\[ *\d+\.\d{6}\] |\[ *\+\d+\.\d{6}\] |\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]")


def _speaker(line: str) -> str | None:
    """Return which program wrote *line*, or None when the line has no stamp that tells."""
    if _DMESG_STAMP.match(line) or _CTIME.match(line) or kmsg.parse_record(line):
        return "kernel"
    stamp = _ISO.match(line) or _SYSLOG_TIME.match(line)
    if stamp and _DMESG_STAMP.match(line, stamp.end()):
        return "kernel"  # a console's own clock in front of the kernel's
    sent = _SYSLOG.match(line[stamp.end() :]) if stamp else _UNDATED.match(line)
    return sent["tag"] if sent else None
