"""The API server, as a pod of a DaemonSet reaches it: with its service account, over one connection that is kept.

The standard library's client: the official one would double the agent's memory for four requests.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Json = dict[str, Any]

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet lays a pod's token, which it renews, and the server's certificate authority."""

ANSWER_S = 10.0
"""Seconds to wait for an answer."""

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class Refused(OSError):  # noqa: N818 - it reads as what it is
    """The API server said no. ``status`` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the API server refused ({status}): {message}")
        self.status = status


class ApiServer:
    """One server, for one thread at a time."""

    def __init__(self, environment: Mapping[str, str] = os.environ, account: Path | None = None) -> None:
        self._host = environment.get("KUBERNETES_SERVICE_HOST", "")
        self._port = int(environment.get("KUBERNETES_SERVICE_PORT", "443"))
        self._account = account or ACCOUNT
        self._connection: http.client.HTTPSConnection | None = None

    def request(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> Json:
        """Return the answer to one request.

        Raises:
            Refused: the server said no. OSError: it cannot be reached, or this is no pod.
        """
        if not self._host:
            raise OSError("this is no pod: KUBERNETES_SERVICE_HOST is not set")
        try:
            return self._request(method, path, body, kind)
        except (http.client.HTTPException, ConnectionError):
            self.close()  # the server lets idle connections go
        try:
            return self._request(method, path, body, kind)
        except http.client.HTTPException as error:
            self.close()
            raise OSError(f"the API server broke off: {error!r}") from error
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _request(self, method: str, path: str, body: Json | None, kind: str) -> Json:
        token = (self._account / "token").read_text(encoding="ascii").strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind, "Accept": "application/json"}
        connection = self._connection = self._connection or self._connect()
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status >= 400:
            raise Refused(answer.status, _message(content))
        said: Json = json.loads(content)
        return said

    def _connect(self) -> http.client.HTTPSConnection:
        trust = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        return http.client.HTTPSConnection(self._host, self._port, timeout=ANSWER_S, context=trust)


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return content[:300].decode("utf-8", "replace")
