"""Asks the agent on this node something that it answers with JSON, over the socket that hooks use."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

ASK_S = 15.0
"""A person waits longer than a hook: for every check that may hang, up to its deadline."""


def ask_agent(run_dir: Path, verb: str, within: float = ASK_S, **pairs: str) -> dict[str, Any]:
    """Return what the agent with the run directory *run_dir* says to *verb* with *pairs*.

    Raises:
        OSError: it is not there or does not answer within *within* seconds. ValueError: the answer is none.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(within)
        connection.connect(str(run_dir / "agent.sock"))
        asked = "".join(f"{key}={value}\n" for key, value in pairs.items())
        connection.sendall(f"{verb}\n{asked}\n".encode())
        with connection.makefile("rb") as answer:
            line = answer.readline().decode()
            while line.startswith("wait "):
                line = answer.readline().decode()
    said = json.loads(line.partition(" ")[2])
    if not isinstance(said, dict):
        raise ValueError("the answer is no record")  # noqa: TRY004 - a peer's fault, not a caller's
    return said
