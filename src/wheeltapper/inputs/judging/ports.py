"""Which InfiniBand ports are down that should be up: held against their neighbours and the same port elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wheeltapper.evidence import Finding
from wheeltapper.inputs.model import Document, Line, Rule

DOWN = Rule("ibstat.down", "network/link_down", "a port looks for its other end while its like are up")


@dataclass
class Port:
    """A port at one moment, with the values that ``ibstat`` printed of it."""

    name: str
    node: str | None
    document: Document
    values: dict[str, tuple[str, Line]] = field(default_factory=dict)

    def text(self, key: str) -> str:
        return self.values[key][0] if key in self.values else ""

    @property
    def is_up(self) -> bool:
        return self.text("State") == "Active"

    @property
    def polls(self) -> bool:
        """True while it looks for another end; a port that a person disabled does not."""
        return self.text("State") == "Down" and self.text("Physical state") == "Polling"


def judge(ports: Sequence[Port]) -> list[Finding]:
    """Return the ports among *ports* that are lost, looked at after the job, mostly: they have no moment."""
    return [
        _down(port) for port in ports if port.polls and (_is_odd_here(port, ports) or _is_up_elsewhere(port, ports))
    ]


def _is_odd_here(port: Port, ports: Sequence[Port]) -> bool:
    """True when it is the only one of its node that polls while others are up; a spare is one of several."""
    alike = [each for each in ports if each.node == port.node and each is not port]
    up = [each for each in alike if each.is_up and each.text("Link layer") == port.text("Link layer")]
    return len(up) > 1 and not any(each.text("Physical state") == "Polling" for each in alike)


def _is_up_elsewhere(port: Port, ports: Sequence[Port]) -> bool:
    """True when the same port is up on every other node that was looked at: nodes of a job are wired alike."""
    others = [each for each in ports if each.name == port.name and each.node != port.node]
    return bool(others) and all(each.is_up and each.text("Link layer") == port.text("Link layer") for each in others)


def _down(port: Port) -> Finding:
    line = port.values["Physical state"][1]
    return DOWN.of(port.document.seen(line, node=port.node), detail=f"port={port.name}")
