"""``python -m tests.bench.senders PORT FIRST_JOB JOBS NODES``: the agents of a fleet, each with one report to deliver.

Every node of every job connects, proves its name and delivers its report, a few hundred at once; what is refused or
asked for again is sent again, as an agent does. One line on standard output: the seconds that it took.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.unit.make import BOOT, logged, xid79
from wheeltapper import codec, wire
from wheeltapper.evidence import Disposition, Finding, Role
from wheeltapper.wire import Answer, JobStay, LogReport, Report

MASTER = b"b" * 64
AT_ONCE = 128
TELLING = 10
"""One node in so many has a finding to tell: a warning, as a busy cluster is full of."""

VERSIONS = {
    "driver": "570.86.15",
    "cuda": "12.8",
    "nccl": "2.25.1",
    "ofed": "24.10",
    "kernel": "6.8.0",
    "fabric": "570.86.15",
}


@dataclass(frozen=True, slots=True)
class Letter:
    """A node's report, ready to be signed."""

    node: str
    key: bytes
    body: bytes


def node_name(number: int) -> str:
    return f"node{number:04}"


def letters(first_job: int, jobs: int, nodes: int, now: float) -> list[Letter]:
    """Return the reports of *jobs* jobs of *nodes* nodes each, no node in two jobs."""
    return [
        Letter(
            node, wire.node_key(MASTER, node), codec.dumps(_report(node, str(first_job + job), number, now)).encode()
        )
        for job in range(jobs)
        for number, node in ((each, node_name(job * nodes + each)) for each in range(nodes))
    ]


def _report(node: str, job: str, number: int, now: float) -> Report:
    stay = JobStay(job, now - 3600.0, now, tuple(f"0000:{bus:02x}:00" for bus in range(8)))
    findings = (_warning(node, now),) if number % TELLING == 0 else ()
    return Report(node, BOOT, stay, findings, VERSIONS)


def _warning(node: str, now: float) -> Finding:
    found = xid79(node, at=now - 60.0)
    return replace(
        found, signature="nvidia.xid.94", role=Role.CONFIRM, disposition=Disposition.RESTART_APP, detail="xid=94"
    )


async def deliver(port: int, letter: Letter) -> Answer | None:
    """Deliver one report and return the answer; None when it was not taken."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            nonce = (await reader.readuntil(b"\n")).decode().split()[1]
            mac = wire._mac(letter.key, "ask", nonce, letter.body)
            writer.write(f"{letter.node} {len(letter.body)} {mac}\n".encode() + letter.body)
            length, mac = (await reader.readuntil(b"\n")).decode().split()
            said = await reader.readexactly(int(length))
        finally:
            writer.close()
    except (OSError, EOFError):
        return None
    if not said:  # the bare server, with which the service is compared, proves nothing and says nothing
        return Answer()
    return codec.loads(Answer, said) if mac == wire._mac(letter.key, "answer", nonce, said) else None


async def deliver_surely(port: int, letter: Letter) -> None:
    """Deliver one report until it is taken, and what the job's logs hold where that is asked for."""
    answer = await deliver(port, letter)
    while answer is None or answer.later:
        await asyncio.sleep(0.05)
        answer = await deliver(port, letter)
    if answer.read:
        report = codec.loads(Report, letter.body)
        logs = codec.dumps(LogReport(letter.node, report.stay, (logged("network/link_down"),))).encode()
        await deliver_surely(port, replace(letter, body=logs))


async def deliver_all(port: int, waiting: list[Letter]) -> float:
    began = time.monotonic()
    queue: Iterator[Letter] = iter(waiting)

    async def sender() -> None:
        for letter in queue:
            await deliver_surely(port, letter)

    await asyncio.gather(*(sender() for _ in range(AT_ONCE)))
    return time.monotonic() - began


def main() -> None:
    port, first_job, jobs, nodes = (int(word) for word in sys.argv[1:5])
    waiting = letters(first_job, jobs, nodes, time.time())
    print(asyncio.run(deliver_all(port, waiting)))


if __name__ == "__main__":
    main()
