r"""What a node and the controller service say to each other, and how each proves who it is.

A connection carries one question and one answer::

    service: WT1 <nonce>\n
    node:    <node> <length> <mac>[ <credential>]\n<body>
    service: <length> <mac>\n<body>

Bodies are JSON. A node's key is derived from the master key and the node's name, so a node can speak for itself
and for nobody else; the nonce is the service's and used once, so nothing can be replayed and no clock is needed.
Where there are no key files, the key is made for this one question and travels in a MUNGE credential, which says who
made it and which the service's user alone can open.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from wheeltapper import codec
from wheeltapper.errors import WireError
from wheeltapper.evidence import Finding, Source
from wheeltapper.verdict import State

SESSION_KEY = 32
"""Bytes of a key that is made for one question."""

MAX_BODY = 4 << 20
"""Bytes of one message: a report of some thousand findings."""

LARGE_BODY = 64 << 10
"""Bytes of a message that is larger than nearly all are: few such are read at once."""

PROTOCOL = "WT1"

_OF_ONE_NODE = frozenset({Source.KERNEL, Source.CHECK})
"""Evidence that can convict a node, and that the node alone can have seen."""


@dataclass(frozen=True, slots=True)
class JobStay:
    """One job's stay on one node. ``prolog_at`` and ``epilog_at`` are seconds since the Unix epoch, None while it runs.

    ``gpus`` holds PCI addresses, empty when it is not known which of the node's GPUs the job had; ``gpu_count`` is how
    many the scheduler gave it, 0 when it gave none or does not say.
    """

    job: str
    prolog_at: float | None
    epilog_at: float | None
    gpus: tuple[str, ...] = ()
    gpu_count: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """A node's evidence for one attempt, sent from its epilog. Sent again until it is answered.

    ``versions`` are of what all nodes of a job must agree on, by the names of the check ``versions``.
    """

    node: str
    boot_id: str
    stay: JobStay
    findings: tuple[Finding, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    kind: Literal["report"] = "report"


@dataclass(frozen=True, slots=True)
class LogReport:
    """What the job's logs hold. ``unreadable`` says for each file that could not be read why.

    ``step`` is the last training step that they tell of.
    """

    node: str
    stay: JobStay
    findings: tuple[Finding, ...] = ()
    unreadable: tuple[str, ...] = ()
    step: int | None = None
    kind: Literal["logs"] = "logs"


@dataclass(frozen=True, slots=True)
class Leave:
    """A node asks for leave to go out of service on the evidence of *findings*, the gravest first.

    In the context ``drill`` nothing is to be done, in no mode: the answer says what would have been.
    """

    node: str
    boot_id: str
    context: Literal["prolog", "epilog", "healthcheck", "drill"]
    findings: tuple[Finding, ...]
    job: str | None = None
    kind: Literal["leave"] = "leave"


@dataclass(frozen=True, slots=True)
class Health:
    """How a node is, whether or not a job runs there: sent whenever it changes, and again at a slow interval.

    ``held_s`` is how many seconds the node has been in this ``state`` without a break, on its own clock; ``findings``
    are the open faults, the gravest first. ``stays`` are the jobs that are there, told while the state is ``fail``.
    """

    node: str
    boot_id: str
    state: State
    held_s: float
    findings: tuple[Finding, ...] = ()
    stays: tuple[JobStay, ...] = ()
    kind: Literal["health"] = "health"


@dataclass(frozen=True, slots=True)
class Answer:
    """The service's answer to any of them.

    To a report: ``read`` names log files that this node is to read as user ``uid`` and send as a LogReport, ``near``
    folders in which logs of single ranks may lie, and ``names`` the job's numbers, by which they are known.
    ``later`` asks for the same report again in a moment: its job's end is not known here yet.
    To a leave: ``out`` says that the node is out of service now; ``released`` that a person put it back after we
    took it out on this same evidence, which settles it. ``reason`` is a sentence for the log. To a drill: ``recorded``
    says that the ledger holds it.
    """

    ok: bool = True
    later: bool = False
    read: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None
    out: bool = False
    released: bool = False
    reason: str = ""
    recorded: bool = False


def _admit_all(_node: str, _size: int) -> None:
    """Let every message in."""


OpenCredential = Callable[[str, str, Any], Awaitable[bytes]]
"""Returns the key in a credential of a node, by name, who comes from an address; raises ``WireError`` otherwise."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What a service takes: *large* bodies at once, and after a node is proved what *admit* does not refuse.

    ``admit`` is given the node and the bytes of its message, and raises WireError. ``opened`` opens MUNGE credentials;
    None takes none.
    """

    large: AbstractAsyncContextManager[object] = field(default_factory=contextlib.nullcontext)
    admit: Callable[[str, int], None] = _admit_all
    opened: OpenCredential | None = None


Message = Report | LogReport | Leave | Health
"""Whatever a node says."""

_message: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def node_key(master: bytes, node: str) -> bytes:
    """Return the key of *node*: what its key file holds, as hexadecimal text."""
    return hmac.new(master, f"wheeltapper node {node}".encode(), hashlib.sha256).hexdigest().encode()


def read_key(path: Path) -> bytes:
    """Return the key in *path* without surrounding white space.

    Raises:
        WireError: the file is missing, unreadable, or holds fewer than 32 bytes.
    """
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise WireError(f"the key file {path} cannot be read: {error.strerror}") from error
    if len(key) < 32:
        raise WireError(f"the key file {path} holds {len(key)} bytes; a key has at least 32")
    return key


def _mac(key: bytes, direction: str, nonce: str, body: bytes) -> str:
    return hmac.new(key, f"{direction} {nonce} ".encode() + body, hashlib.sha256).hexdigest()


async def ask(address: str, node: str, key: bytes, message: Message, timeout: float, credential: str = "") -> Answer:
    """Send *message* to the service at *address* (``host:port``) and return its answer within *timeout* seconds.

    *credential* is the MUNGE credential that holds *key*, when that is no key of a key file.

    Raises:
        WireError: the answer is not the service's, or the service refused.
        OSError, TimeoutError: the service cannot be reached or did not answer in time.
    """
    try:
        return await asyncio.wait_for(_ask(address, node, key, message, credential), timeout)
    except asyncio.TimeoutError as error:
        raise TimeoutError(
            f"the controller service at {address} did not answer within {round(timeout, 1):g} s"
        ) from error
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        raise WireError(f"the controller service at {address} broke off or does not speak {PROTOCOL}") from error


async def _ask(address: str, node: str, key: bytes, message: Message, credential: str) -> Answer:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        protocol, nonce = (await reader.readuntil(b"\n")).decode().split()
        if protocol != PROTOCOL:
            raise WireError(f"the controller service speaks {protocol}, not {PROTOCOL}")
        body = codec.dumps(message).encode()
        if len(body) > MAX_BODY:
            raise WireError(f"a message of {len(body)} bytes is too long; the limit is {MAX_BODY}")
        words = (node, str(len(body)), _mac(key, "ask", nonce, body), credential)
        writer.write(" ".join(words).rstrip().encode() + b"\n" + body)
        await writer.drain()
        length, mac = (await reader.readuntil(b"\n")).decode().split()
        answer = await reader.readexactly(min(int(length), MAX_BODY))
        if not hmac.compare_digest(mac, _mac(key, "answer", nonce, answer)):
            raise WireError("the answer was not signed with this node's key")
        return codec.loads(Answer, answer)
    finally:
        writer.close()


async def serve(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    master: bytes | None,
    handle: Callable[[Message], Awaitable[Answer]],
    read_timeout: float,
    gate: Gate | None = None,
) -> None:
    """Answer one connection: prove the node, read its message within *read_timeout* seconds, call *handle*.

    Nodes prove themselves by keys derived from *master*, None where they do so by the credentials that *gate* opens.

    Raises:
        WireError: the peer is not who it says, speaks for another node, or sends something else or, by *gate*, too
            much. Nothing was handled.
    """
    try:
        receiving = _receive(reader, writer, master, gate or Gate())
        message, key, nonce = await asyncio.wait_for(receiving, read_timeout)
        body = codec.dumps(await handle(message)).encode()
        writer.write(f"{len(body)} {_mac(key, 'answer', nonce, body)}\n".encode() + body)
        await writer.drain()
    except asyncio.TimeoutError as error:
        raise WireError("a peer did not finish its message in time", kind="time") from error
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
        raise WireError("a peer broke off") from error
    finally:
        writer.close()


async def _receive(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    master: bytes | None,
    gate: Gate,
) -> tuple[Message, bytes, str]:
    nonce = secrets.token_hex(16)
    writer.write(f"{PROTOCOL} {nonce}\n".encode())
    await writer.drain()
    words = (await reader.readuntil(b"\n")).decode("utf-8", "replace").split()
    if len(words) not in {3, 4} or not (words[1].isascii() and words[1].isdigit() and len(words[1]) <= 9):
        raise WireError("a peer does not speak the protocol")
    node, length, mac = words[:3]
    if int(length) > MAX_BODY:
        raise WireError(f"{node[:80]!r} announced {length} bytes; the limit is {MAX_BODY}", kind="size")
    async with gate.large if int(length) > LARGE_BODY else contextlib.nullcontext():
        body = await reader.readexactly(int(length))
    if len(words) == 4 and gate.opened is not None:
        key = await gate.opened(node, words[3], writer.get_extra_info("peername"))
    elif len(words) == 3 and master is not None:
        key = node_key(master, node)
    else:
        brought = "a MUNGE credential" if len(words) == 4 else "a key of a key file"
        raise WireError(f"{node[:80]!r} came with {brought}, and this service takes no such proof", kind="proof")
    if not hmac.compare_digest(mac, _mac(key, "ask", nonce, body)):
        raise WireError(f"a peer that calls itself {node[:80]!r} did not prove it", kind="proof")
    gate.admit(node, int(length))
    try:
        message = _message.validate_json(body)
    except ValidationError as error:
        raise WireError(f"{node} sent something that is no message: {error.error_count()} errors") from error
    if message.node != node:
        raise WireError(f"{node} tried to speak for {message.node}", kind="foreign")
    for finding in message.findings:
        seen = finding.evidence
        if seen.source in _OF_ONE_NODE and seen.node not in {None, node}:
            raise WireError(f"{node} tried to bring evidence of {seen.node}", kind="foreign")
    return message, key, nonce
