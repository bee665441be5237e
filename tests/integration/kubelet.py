"""A kubelet's pod-resources socket: as much of gRPC as one call without parameters needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import h2.config
import h2.connection
import h2.events


class Kubelet:
    """Answers with *content*, a ListPodResourcesResponse, or refuses with *refusal*, a gRPC status."""

    def __init__(self, path: Path, content: bytes = b"", refusal: str = "") -> None:
        self.path = path
        self.content = content
        self.refusal = refusal
        self.asked: list[str] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._serve, str(self.path))
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        left = b""
        while chunk := await reader.read(1 << 16):
            for event in connection.receive_data(chunk):
                if isinstance(event, h2.events.RequestReceived):
                    self.asked.append(dict(event.headers)[":path"])
                if isinstance(event, h2.events.StreamEnded):
                    left = self._begin(connection)
            left = self._go_on(connection, left)
            writer.write(connection.data_to_send())
        writer.close()

    def _begin(self, connection: h2.connection.H2Connection) -> bytes:
        headers = [(":status", "200"), ("content-type", "application/grpc")]
        if self.refusal:
            connection.send_headers(1, [*headers, ("grpc-status", self.refusal), ("grpc-message", "no")], True)
            return b""
        connection.send_headers(1, headers)
        return b"\0" + len(self.content).to_bytes(4, "big") + self.content

    def _go_on(self, connection: h2.connection.H2Connection, left: bytes) -> bytes:
        """Send as much as the caller's windows take, and return the rest."""
        while left:
            size = min(connection.local_flow_control_window(1), connection.max_outbound_frame_size, len(left))
            if not size:
                return left
            connection.send_data(1, left[:size])
            left = left[size:]
            if not left:
                connection.send_headers(1, [("grpc-status", "0")], end_stream=True)
        return b""
