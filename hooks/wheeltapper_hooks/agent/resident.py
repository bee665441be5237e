"""``python -m wheeltapper_hooks.agent.resident [FILE]``: the agent itself, without what only a command line needs.

``wheeltapper agent run`` becomes this process: what parses options stays in memory for as long as a process lives, and
this one lives for months. OpenSSL (5 of 43 MB) is left out as well: no connection of ours speaks TLS, and Python's own
SHA-256 serves the few messages that are signed.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

_OPENSSL = ("ssl", "_hashlib")

_HAS_OWN_HASHES = all(find_spec(name) for name in ("_md5", "_sha1", "_blake2")) and bool(
    find_spec("_sha2") or find_spec("_sha256")
)
"""False where Python was built to take all hashes from OpenSSL."""

if _HAS_OWN_HASHES:
    for _name in _OPENSSL:
        sys.modules[_name] = None  # type: ignore[assignment] # "not installed", for as long as we import

import asyncio  # noqa: E402
import gc  # noqa: E402
import hashlib  # noqa: E402, F401 - it chooses once
import logging  # noqa: E402
from pathlib import Path  # noqa: E402

from wheeltapper.config import load  # noqa: E402
from wheeltapper.errors import WheeltapperError  # noqa: E402
from wheeltapper_hooks.agent.daemon import Agent  # noqa: E402

if _HAS_OWN_HASHES:
    for _name in _OPENSSL:
        del sys.modules[_name]  # a site's check may want it

TROUBLE = 2
"""Exit code when the agent cannot start."""


def main(config: Path | None) -> int:
    """Watch this node until SIGTERM, and return the exit code."""
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z", level=logging.INFO
    )

    async def serve() -> None:
        agent = Agent(load(config), config)
        gc.collect()
        gc.freeze()  # what is loaded now stays; children that look at it copy none of its pages
        await agent.run()

    try:
        asyncio.run(serve())
    except (WheeltapperError, OSError) as error:
        print(f"wheeltapper agent: it cannot start: {error}", file=sys.stderr)  # noqa: T201 - nothing logs it later
        return TROUBLE
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
