"""Any other program as a check: NHC, `dcgmi diag`, a script of the site's own.

It ends with 0 for ok, 1 for fail, 2 for warn and 3 for unknown; anything else, a signal, or its deadline are unknown
too. What it writes becomes the reason, up to a bound. It runs in a process group of its own, which is killed whole.
Its failure takes the node out only where the site says so, by a disposition on a label of hardware.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

from wheeltapper.checks import running
from wheeltapper.checks.model import Check, Fault, Host, NoLimits, Probe, Reading
from wheeltapper.config import ProgramSection
from wheeltapper.errors import ConfigError
from wheeltapper.evidence import Disposition, Finding
from wheeltapper.labels import label

OK, FAIL, WARN, UNKNOWN = 0, 1, 2, 3

SAID_MAX = 300
"""Characters of the program's last words that a finding shows."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program of the site's as a probe and a judge."""

    section: ProgramSection
    failure: Fault
    warning: Fault

    def read(self, host: Host) -> running.Ran:
        """Run it on *host*, and return how it ended.

        Raises:
            OSError: it cannot be started, or did not end in time.
            ValueError: it says that it does not know, or ended in a way that says nothing.
        """
        command = self.section.command
        found = running.find(host, command[0]) if "/" not in command[0] else None
        ran = running.run([str(found or command[0]), *command[1:]], self.section.deadline_s, self.section.output_bytes)
        if ran.code not in {OK, FAIL, WARN}:
            why = "does not know" if ran.code == UNKNOWN else f"ended with {ran.code}"
            raise ValueError(f"{command[0]} {why}: {_said(ran)}")
        return ran

    def judge(self, readings: Sequence[Reading[running.Ran]], host: Host, _limits: NoLimits) -> Iterator[Finding]:
        """Yield what it said when it ended with fail or warn."""
        now = readings[-1]
        if now.value.code != OK:
            fault = self.failure if now.value.code == FAIL else self.warning
            yield fault.seen(host, now.at, _said(now.value), detail=f"exit={now.value.code}")


def _said(ran: running.Ran) -> str:
    """Return the program's last words in one line: a summary stands at the end of most outputs."""
    words = " ".join(ran.output.split())
    return (f"…{words[-SAID_MAX:]}" if len(words) > SAID_MAX else words) or "it said nothing"


def modules(sections: Iterable[ProgramSection]) -> Iterator[ModuleType]:
    """Yield for each of *sections* what a file of its own would be.

    Raises:
        ConfigError: a label is none, or a disposition that takes nodes out stands beside a label that is no hardware's.
    """
    for number, section in enumerate(sections):
        module = ModuleType(section.name, f"{section.about or f'What does {section.command[0]} say?'}\n\n{__doc__}")
        program = _program(section, f"checks.programs.{number}")
        probe = Probe(
            section.name,
            program.read,
            every_s=section.every_s,
            # The program's own deadline comes first: it is then known by name, and killed with all that it started.
            deadline_s=section.deadline_s + 1.0,
            may_hang=True,
        )
        module.__file__ = f"checks.programs.{number}"
        vars(module).update(FAILURE=program.failure, CHECK=Check(section.name, probe, program.judge))
        yield module


def _program(section: ProgramSection, key: str) -> Program:
    try:
        label(section.label)
    except ValueError as error:
        raise ConfigError(f"{key}.label: {error}") from error
    disposition = Disposition(section.disposition)
    if disposition.convicts and not section.label.startswith("hardware/"):
        raise ConfigError(f"{key}.disposition: {disposition.value} takes a node out, and only a hardware/ label may")
    name = section.command[0]
    return Program(
        section,
        Fault(section.name, section.label, f"{name} says that the node is not fit", disposition),
        Fault(section.name, section.label, f"{name} warns"),
    )
