"""What can go wrong with a cluster, each with a message that says what to look at or to type.

ClusterError
├── Unavailable     this machine or this user cannot make a cluster; the message says what to type
├── CommandFailed   a command returned non-zero
└── NotInTime       something that was waited for did not happen; the message says what was seen last
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


class ClusterError(Exception):
    """The cluster did not do what was asked."""


class Unavailable(ClusterError):  # noqa: N818 - reads as what happened
    """No cluster can be made here."""


class NotInTime(ClusterError):  # noqa: N818 - reads as what happened
    """A condition did not come true before its deadline."""


class CommandFailed(ClusterError):  # noqa: N818 - reads as what happened
    """A command returned non-zero."""

    def __init__(self, command: Sequence[str], result: subprocess.CompletedProcess[str]) -> None:
        self.result = result
        said = (result.stderr or "").strip() or (result.stdout or "").strip() or "nothing"
        super().__init__(f"`{' '.join(command)}` ended with {result.returncode} and said: {said}")
