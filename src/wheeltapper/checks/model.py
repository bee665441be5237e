"""What a check is made of: a probe that reads one thing, and checks that judge what it has read.

Several checks may judge what one probe reads, so that it is read once. A check's module holds it under the name CHECK;
the registry finds it there, and no list names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

from wheeltapper.config import NodeSection, Section
from wheeltapper.errors import WheeltapperError
from wheeltapper.evidence import Disposition, Evidence, Finding, Role, Source
from wheeltapper.labels import label

T = TypeVar("T")


class NotApplicable(WheeltapperError):  # noqa: N818 - no error: the machine has no such part
    """The node has nothing of this kind, and should have none. Its text says what is absent."""


class Context(str, Enum):
    """When a check is asked."""

    PREFLIGHT = "preflight"
    PERIODIC = "periodic"
    POSTFLIGHT = "postflight"


ALWAYS = frozenset(Context)


class NoLimits(Section):
    """The check has no threshold."""


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that is looked at: who it is, what it should have, and where its files are.

    The roots stand for ``/sys``, ``/proc``, ``/dev``, ``/run`` and ``/`` (for everything else), so that a machine can
    be a folder of fixtures.
    """

    node: str
    boot_id: str
    expected: NodeSection = field(default_factory=NodeSection)
    sysfs: Path = Path("/sys")
    procfs: Path = Path("/proc")
    dev: Path = Path("/dev")
    run: Path = Path("/run")
    root: Path = Path("/")


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What a probe read, and when (Unix seconds)."""

    at: float
    value: T


@dataclass(frozen=True, slots=True)
class Probe(Generic[T]):
    """An impure read of one thing.

    ``read`` raises :class:`NotApplicable` where the node has nothing of the kind, and ``OSError`` or ``ValueError``
    where it cannot be read; then the verdict is *unknown*, never *fail*. What *may_hang* is read in a child process
    that is killed after ``deadline_s``; the rest, a few small files, in the agent itself. It is read every ``every_s``,
    and earlier readings are kept for ``keep_s``, for rates.
    """

    name: str
    read: Callable[[Host], T]
    every_s: float = 60.0
    deadline_s: float = 5.0
    may_hang: bool = False
    keep_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Check(Generic[T]):
    """A pure judge of what a probe has read.

    ``judge`` gets the readings that are kept, the newest last and at least one, the host, and the check's limits as
    the site has set them: an instance of ``limits``, a model whose fields say each default's unit, reason and source.
    A check that is ``of_idle_nodes`` judges what a job's own work would look like, so it judges while there is none.
    """

    name: str
    probe: Probe[T]
    judge: Callable[[Sequence[Reading[T]], Host, Any], Iterable[Finding]]
    limits: type[Section] = NoLimits
    contexts: frozenset[Context] = ALWAYS
    of_idle_nodes: bool = False

    @property
    def signature(self) -> str:
        """The signature of the check's findings."""
        return signature(self.name)


def signature(check: str) -> str:
    """Return the signature of the findings of the check named *check*."""
    return f"check.{check}"


@dataclass(frozen=True, slots=True)
class Fault:
    """What a check has found on *host*, in the check's own words; :meth:`seen` makes a finding of an observation."""

    check: str
    label: str
    summary: str
    disposition: Disposition = Disposition.NONE
    role: Role = Role.ROOT

    def seen(self, host: Host, at: float, text: str, *, detail: str = "", device: str = "", **more: Any) -> Finding:
        """Return the finding; *text* says what was observed with its numbers, *more* goes into the evidence (gpu).

        *device* names what is no GPU (``nvme0``, ``mlx5_1/1``, a mount): a check may find several of its kind.
        """
        evidence = Evidence(Source.CHECK, text, at, host.node, host.boot_id, **more)
        fields = {"device": device} if device else {}
        return Finding(
            signature(self.check),
            label(self.label),
            self.role,
            self.disposition,
            evidence,
            detail,
            self.summary,
            fields,
        )

    @property
    def convicts(self) -> bool:
        """True when a finding of it takes the node out."""
        return self.role is Role.ROOT and self.disposition.convicts and self.label.startswith("hardware/")
