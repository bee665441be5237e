"""``python forward.py LISTENING-FD HOST PORT``: passes connections on to an address that this process can reach.

The listening socket was made in the machine's own network, this process lives in a cluster's: so people and tests outside
reach the API server on the loopback device, and nothing else of the cluster.
"""

from __future__ import annotations

import asyncio
import socket
import sys


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        # One side is gone; whoever is left on the other learns of it at once.
        writer.transport.abort()


async def _serve(listener: socket.socket, host: str, port: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))
        far_writer.close()
        writer.close()

    server = await asyncio.start_server(connected, sock=listener)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], int(sys.argv[3])))
