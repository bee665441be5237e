"""What the init container of a training pod runs: it asks the node's agent about the GPUs that the pod was given.

``python3 -I -m wheeltapper_hooks.preflight_pod`` ends with exit code 100 when the agent has found the machine guilty.
Everything else, and every trouble of our own (no agent, no answer, no token), is 0: the pod starts. What was said
stands as JSON in the container's termination message.

It runs in other people's pods, so it uses the standard library only.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

KEPT_OFF = 100
"""Not 1 or 2, with which Python itself ends on trouble of its own, nor 126 and more, which are the shell's."""

TOKEN = "/var/run/secrets/wheeltapper.dev/token"  # noqa: S105 - the file's place
MESSAGE = "/dev/termination-log"
MESSAGE_BYTES = 4096
"""What the kubelet keeps of a container's termination message."""

CONNECT_S = 5.0
"""An agent that restarts is back within seconds; a network that drops what we send never answers."""

ANSWER_S = 30.0
"""The longest that an agent takes: quick probes, the API server and the kubelet, each with a deadline of its own."""

AGAIN_S = 0.5

ANSWER_BYTES = 64 << 10

Report = dict[str, Any]


class Busy(OSError):  # noqa: N818 - it reads as what it is
    """The agent is there, and cannot answer at the moment."""


def ask(host: str, port: int, token: str) -> Report:
    """Return what the agent at *host* says to the pod that *token* belongs to.

    Raises:
        Busy: it cannot answer now. OSError: it is not there, or refuses. ValueError: what it says is no answer.
    """
    connection = http.client.HTTPConnection(host, port, timeout=CONNECT_S)
    try:
        connection.connect()
        connection.sock.settimeout(ANSWER_S)
        connection.request("GET", "/v1/preflight", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        content = answer.read(ANSWER_BYTES)
    except http.client.HTTPException as error:
        raise OSError(f"the agent broke off ({type(error).__name__})") from error
    finally:
        connection.close()
    said = json.loads(content)
    if not isinstance(said, dict) or not isinstance(said.get("sentence"), str):
        raise ValueError("the agent's answer is none")  # noqa: TRY004 - a peer's fault, not a caller's
    if answer.status == http.client.SERVICE_UNAVAILABLE:
        raise Busy(said["sentence"])
    if answer.status != http.client.OK:
        raise PermissionError(said["sentence"])
    return said


def ask_until_it_is_there(host: str, port: int, token: str) -> Report:
    """Return what the agent says; one that restarts is waited for, up to :data:`CONNECT_S`."""
    until = time.monotonic() + CONNECT_S
    while True:
        try:
            return ask(host, port, token)
        except (ConnectionError, Busy):
            if time.monotonic() + AGAIN_S > until:
                raise
        time.sleep(AGAIN_S)


def message(report: Report) -> bytes:
    """Return *report* as the termination message; of one that is too long the last findings are left out."""
    kept = dict(report)
    while len(text := json.dumps(kept).encode()) > MESSAGE_BYTES:
        if kept.get("findings"):
            kept["findings"] = kept["findings"][:-1]
        else:
            kept = {"state": report.get("state"), "sentence": report["sentence"][:300]}
    return text


def run(environment: Mapping[str, str], token_file: str = TOKEN) -> Report:
    """Return the agent's report, or one that says why there is none."""
    try:
        with open(token_file, encoding="ascii") as file:  # noqa: PTH123 - pathlib costs start-up time
            token = file.read().strip()
        host, port = environment["WHEELTAPPER_AGENT_HOST"], int(environment["WHEELTAPPER_AGENT_PORT"])
        return ask_until_it_is_there(host, port, token)
    except (OSError, ValueError, KeyError) as error:
        why = str(error) or type(error).__name__
        return {"state": "unknown", "sentence": f"the node's agent was not heard, so the pod starts: {why}"}


def _late(_number: int, _frame: object) -> None:
    raise TimeoutError("the deadline is past")


def leave(report: Report, message_file: str) -> None:
    """Leave *report* where people and the operator look. What cannot be written changes no verdict."""
    try:
        print(report["sentence"], flush=True)  # noqa: T201 - the container's log is theirs who look into it
        with open(message_file, "wb") as file:  # noqa: PTH123 - pathlib costs start-up time
            file.write(message(report))
    except OSError as error:
        print(f"the report cannot be left: {error}", file=sys.stderr)  # noqa: T201


def main(environment: Mapping[str, str] = os.environ, token_file: str = TOKEN, message_file: str = MESSAGE) -> int:
    """Ask, leave the report, and return the exit code; whatever goes wrong in here is our fault and exit code 0."""
    try:
        signal.signal(signal.SIGALRM, _late)
        signal.alarm(int(environment.get("WHEELTAPPER_DEADLINE_S", "120")))
        report = run(environment, token_file)
        signal.alarm(0)
    except Exception as error:  # noqa: BLE001 - the process boundary
        report = {"state": "unknown", "sentence": f"the check itself failed, so the pod starts: {error!r}"}
    leave(report, message_file)
    return KEPT_OFF if report.get("state") == "fail" else 0


if __name__ == "__main__":
    sys.exit(main())
