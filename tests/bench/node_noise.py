"""``python -m tests.bench.node_noise KUBECONFIG NODES A_SECOND``: heartbeats of nodes that are well, until it is killed."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from wheeltapper_operator.api import STRATEGIC_PATCH, Api

AT_ONCE = 16


async def main(kubeconfig: Path, nodes: int, a_second: float) -> None:
    """Write so many heartbeats a second, in turn for each node; when the server is slower, as many as it takes."""
    api = await Api.connect(kubeconfig)
    began, number = time.monotonic(), 0
    room = asyncio.Semaphore(AT_ONCE)

    async def beat(number: int) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": str(number)}
        path = f"/api/v1/nodes/noise-{number % nodes}/status"
        try:
            await api.patch(path, {"status": {"conditions": [ready]}}, STRATEGIC_PATCH)
        finally:
            room.release()

    tasks: set[asyncio.Task[None]] = set()
    while True:
        await room.acquire()
        task = asyncio.create_task(beat(number))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        number += 1
        await asyncio.sleep(max(0.0, began + number / a_second - time.monotonic()))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
