"""A cluster without key files: nodes prove themselves by the MUNGE that Slurm itself uses."""

from __future__ import annotations

import sys

import pytest

from tests.e2e.slurm import scenes
from tests.e2e.slurm.cluster.node import Node
from tests.e2e.slurm.story import CALM, FULL, drained, explained, labelled
from wheeltapper import wire

KEY = "k" * wire.SESSION_KEY

ASK = """
import asyncio, sys
from pathlib import Path
from wheeltapper import config, wire
from wheeltapper.errors import WireError
from wheeltapper.verdict import State
address = config.load(Path("/etc/wheeltapper/wheeltapper.toml")).controller.address
name, key, credential = sys.argv[1:]
health = wire.Health(name, "boot", State.OK, 1.0)
try:
    asyncio.run(wire.ask(address, name, key.encode(), health, 5.0, credential))
    print("heard")
except WireError:
    print("refused")
"""


@pytest.fixture(scope="module")
def cluster(start_cluster):
    config = {**FULL, "controller": {**FULL["controller"], "auth": "munge"}}
    return start_cluster(nodes=3, config=config, healthcheck_interval=CALM)


def credential(cluster, user: str | None = None) -> str:
    """A credential with our key in it, made by *user* (root when None) for the service alone."""
    words = ("munge", f"--socket={cluster.layout.munge_socket}", "--restrict-uid=0", f"--string={KEY}")
    return cluster.run(*words, user=user).stdout.strip()


def ask(node: Node, name: str, made: str) -> str:
    """Speak to the service from *node* in the name of *name* with the credential that was *made*."""
    return node.run(sys.executable, "-c", ASK, name, KEY, made).stdout.strip()


def test_the_whole_loop_runs_without_any_key(cluster):
    assert "nodes prove themselves by MUNGE" in cluster.controller.tail()
    job = scenes.train(cluster)
    scenes.in_step(cluster, job)
    bad = scenes.nodes_of(cluster, job)[1]

    cluster.node(bad).xid(79)

    assert labelled(explained(cluster, job))[:2] == ("hardware/gpu_xid", "xid=79")
    assert drained(cluster) == {bad}
    assert cluster.wait_job(job, "COMPLETED", 60.0)["ExcNodeList"] == bad


def test_an_ordinary_user_speaks_for_no_node(cluster):
    assert ask(cluster.node("node2"), "node2", credential(cluster, user="nobody")) == "refused"


def test_a_credential_is_heard_once(cluster):
    made = credential(cluster)

    assert ask(cluster.node("node2"), "node2", made) == "heard"
    assert ask(cluster.node("node2"), "node2", made) == "refused"


def test_a_node_that_slurm_does_not_know_is_not_heard(cluster):
    assert ask(cluster.node("node2"), "node9", credential(cluster)) == "refused"
