"""Runs inside a cluster: makes the calls of its second argument (JSON) through the backend that the first one names.

It prints one JSON document: the answers, an error as ``{"raised": its class, "said": its sentence}``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from wheeltapper import codec
from wheeltapper.config import SlurmSection
from wheeltapper.errors import SchedulerError
from wheeltapper_slurm import choosing


async def make(backend: str, calls: list[list[str]], timeout: float) -> list[Any]:
    section = SlurmSection(client=backend, conf=Path(os.environ["SLURM_CONF"]), command_timeout_s=timeout)
    async with choosing.opened(section) as client:
        return [await _one(getattr(client, name), arguments) for name, *arguments in calls]


async def _one(method: Any, arguments: list[str]) -> Any:
    try:
        return codec.dump(await method(*arguments))
    except SchedulerError as error:
        return {"raised": type(error).__name__, "said": str(error)}


def main() -> None:
    try:
        answers = asyncio.run(make(sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3])))
    except SchedulerError as error:
        sys.exit(str(error))
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
