"""The errors that cross a room's border.

WheeltapperError
├── ConfigError      the configuration file is wrong; the message names file, key and value
├── CatalogueError   a signature file is wrong; the message names file and entry
├── LedgerError      the record cannot be read or written: a full disk, a server that is away
├── WireError        a peer sent something that is not the protocol, or did not prove who it is
└── SchedulerError   the scheduler refused or did not answer
    └── SchedulerDown    it did not answer: try again later, nothing was decided
"""

from __future__ import annotations


class WheeltapperError(Exception):
    """Something that a person should read; the message is a whole sentence."""


class ConfigError(WheeltapperError):
    """The configuration is wrong."""


class CatalogueError(WheeltapperError):
    """A file of the catalogue is wrong."""


class LedgerError(WheeltapperError):
    """The record cannot be read or written; the same call may succeed later."""


class WireError(WheeltapperError):
    """A peer broke the protocol or failed to prove its name.

    ``kind`` is why, in a word for a metric: protocol, size, time, proof, foreign (it spoke for another), rate or busy.
    """

    def __init__(self, sentence: str, kind: str = "protocol") -> None:
        super().__init__(sentence)
        self.kind = kind


class SchedulerError(WheeltapperError):
    """The scheduler refused what was asked."""


class SchedulerDown(SchedulerError):  # noqa: N818 - it is a state, and reads as one
    """The scheduler did not answer; the same call may succeed later."""
