"""What can go wrong with a cluster, each with a message that says what to look at or to type.

ClusterError
├── Unavailable     this machine or this user cannot make a cluster; the message says what to type
├── CommandFailed   a command inside the cluster returned non-zero
└── NotInTime       something that was waited for did not happen; the message ends with the daemons' logs
"""

from __future__ import annotations

import subprocess


class ClusterError(Exception):
    """The private cluster did not do what was asked."""


class Unavailable(ClusterError):  # noqa: N818 - reads as what happened
    """No cluster can be made here."""


class NotInTime(ClusterError):  # noqa: N818 - reads as what happened
    """A condition did not come true before its deadline."""


class CommandFailed(ClusterError):  # noqa: N818 - reads as what happened
    """A command inside the cluster returned non-zero."""

    def __init__(self, command: tuple[str, ...], result: subprocess.CompletedProcess[str]) -> None:
        self.result = result
        said = result.stderr.strip() or result.stdout.strip() or "nothing"
        super().__init__(f"`{' '.join(command)}` ended with {result.returncode} and said: {said}")
