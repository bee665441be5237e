"""``python -m tests.bench.bare_server PORT``: reads what agents send and throws it away, with asyncio and nothing else.

It is what the controller service is compared with: the same bytes on the same connections, nothing proved or kept.
"""

from __future__ import annotations

import asyncio
import sys


async def discard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"WT1 00\n")
    length = (await reader.readuntil(b"\n")).split()[1]
    await reader.readexactly(int(length))
    writer.write(b"0 -\n")
    await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(discard, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
