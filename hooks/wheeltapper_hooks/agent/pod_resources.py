"""Which devices the kubelet gave to a pod: one question over the kubelet's own socket.

It is gRPC, of which this speaks what one call without parameters needs (docs/adr/0026): h2 does HTTP/2, and the four
messages of the answer are read field by field. Numbers of fields: k8s.io/kubelet/pkg/apis/podresources/v1/api.proto.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h2.config
import h2.connection
import h2.errors
import h2.events

KUBELET_S = 3.0
"""Seconds for the kubelet's answer: it has it in memory."""

ANSWER_BYTES = 16 << 20
"""A node has at most some hundred pods; this is far beyond what they make."""

LIST = "/v1.PodResourcesLister/List"


class KubeletTrouble(OSError):  # noqa: N818 - it reads as what it is
    """The kubelet could not be asked, or its answer is not understood."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a pod: ``resource`` is what the pod asked for, ``id`` the device plugin's name for it."""

    resource: str
    id: str


async def devices_of(socket: Path, namespace: str, pod: str) -> frozenset[Device] | None:
    """Return the devices that *pod* has, in all of its containers; None when the kubelet does not know the pod.

    Raises:
        KubeletTrouble: there is no answer.
    """
    try:
        content = await asyncio.wait_for(_call(socket, LIST), KUBELET_S)
        return find(content, namespace, pod)
    except asyncio.TimeoutError as error:
        raise KubeletTrouble(f"the kubelet did not answer within {KUBELET_S:g} s") from error
    except (OSError, ValueError, IndexError, h2.exceptions.ProtocolError) as error:
        raise KubeletTrouble(f"the kubelet cannot be asked for its pods' devices: {error}") from error


def find(content: bytes, namespace: str, pod: str) -> frozenset[Device] | None:
    """Return the devices of *pod* in a ListPodResourcesResponse; None when it is not in there.

    Raises:
        ValueError, IndexError: *content* is no such message.
    """
    for each in _messages(content, 1):
        if (_text(each, 1), _text(each, 2)) == (pod, namespace):
            return frozenset(
                Device(_text(devices, 1), name.decode())
                for container in _messages(each, 3)
                for devices in _messages(container, 2)
                for name in _messages(devices, 2)
            )
    return None


def _messages(content: bytes, wanted: int) -> Iterator[bytes]:
    """Yield what stands in the length-delimited field *wanted* of the message *content*, as often as it occurs."""
    at = 0
    while at < len(content):
        tag, at = _varint(content, at)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(content, at)
        elif kind == 2:
            length, at = _varint(content, at)
            if at + length > len(content):
                raise ValueError("the message is cut off")
            if tag >> 3 == wanted:
                yield content[at : at + length]
            at += length
        elif kind in {1, 5}:
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field has the unknown wire type {kind}")


def _text(content: bytes, wanted: int) -> str:
    return next(_messages(content, wanted), b"").decode()


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


async def _call(socket: Path, path: str) -> bytes:
    """Return the message that a unary call of *path* with an empty request is answered with."""
    reader, writer = await asyncio.open_unix_connection(str(socket))
    try:
        connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        connection.initiate_connection()
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ]
        connection.send_headers(1, headers)
        connection.send_data(1, b"\0" * 5, end_stream=True)  # not compressed, no bytes long
        writer.write(connection.data_to_send())
        return _unframed(await _answer(reader, writer, connection))
    finally:
        writer.close()


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: h2.connection.H2Connection
) -> bytes:
    content = bytearray()
    while chunk := await reader.read(1 << 16):
        for event in connection.receive_data(chunk):
            if isinstance(event, h2.events.DataReceived):
                content += event.data or b""
                connection.acknowledge_received_data(event.flow_controlled_length or 0, 1)
            elif isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                _check({str(name): str(value) for name, value in event.headers or ()})
            elif isinstance(event, h2.events.StreamEnded):
                return bytes(content)
            elif isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
                raise ConnectionError(f"the kubelet broke off ({event.error_code})")
        if len(content) > ANSWER_BYTES:
            raise ValueError(f"the answer is longer than {ANSWER_BYTES} bytes")
        writer.write(connection.data_to_send())
    raise ConnectionError("the kubelet broke off")


def _check(headers: dict[str, str]) -> None:
    code = headers.get("grpc-status", "0")
    if headers.get(":status", "200") != "200" or code != "0":
        raise ConnectionError(f"it refuses (status {code}): {headers.get('grpc-message', 'without a word')}")


def _unframed(content: bytes) -> bytes:
    if len(content) < 5 or content[0] != 0 or int.from_bytes(content[1:5], "big") != len(content) - 5:
        raise ValueError("the answer is not one plain message")
    return content[5:]
