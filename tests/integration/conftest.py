"""Fixtures: a node in a folder, a controller service for it, and one on a slurmctld in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.node import Node
from tests.integration.service import MASTER, Message, Service
from tests.integration.slurm_desk import Desk, cluster
from tests.unit.slurm.fake import FakeSlurm
from wheeltapper.wire import Answer, node_key


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node in quarantine mode with a fake Slurm and without a controller; its agent is not running yet."""
    made = Node(tmp_path / "n1")
    yield made
    made.close()


@pytest.fixture
def serve(node: Node) -> Iterator[Callable[..., Service]]:
    """Start a controller service that the node knows; the argument is its answer, or a function from the message."""
    services: list[Service] = []

    def start(answer: Answer | Callable[[Message], Answer] = Answer(), port: int = 0) -> Service:  # noqa: B008 - frozen
        service = Service(answer if callable(answer) else lambda _: answer, port)
        services.append(service)
        (node.folder / "key").write_bytes(node_key(MASTER, node.name))
        node.configure(controller={"address": service.address})
        return service

    yield start
    for each in services:
        each.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    """Set up a controller service; its clock is the test's."""
    desks: list[Desk] = []

    def make(slurm: FakeSlurm | None = None, mode: str = "full") -> Desk:
        desks.append(Desk(tmp_path, slurm or cluster(), mode))
        return desks[-1]

    yield make
    for each in desks:
        each.close()
