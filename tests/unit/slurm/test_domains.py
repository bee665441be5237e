"""Failure domains, and the budget in each."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.make import BOOT, xid79
from tests.unit.slurm.fake import FakeSlurm, node
from wheeltapper.config import BudgetSection, PolicySection
from wheeltapper.errors import ConfigError
from wheeltapper.ledger.store import Ledger
from wheeltapper.policy.budget import Share, Standing, refused
from wheeltapper.wire import Leave
from wheeltapper_slurm import domains
from wheeltapper_slurm.quarantine import Gate

OURS = "wheeltapper: hardware/pcie at=2026-11-29T12:01:03Z: reboot"
OUT = ("IDLE", "DRAIN")

TREE = """\
SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-4]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[5-8]
SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-8] Switches=s[0-1]
"""


def test_leaf_switches_and_blocks_are_domains_and_the_core_of_the_fabric_is_none():
    assert domains.leaves(TREE) == {"s0": {"n1", "n2", "n3", "n4"}, "s1": {"n5", "n6", "n7", "n8"}}
    assert domains.leaves("BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2") == {"b1": {"n1", "n2"}}


@pytest.mark.parametrize("text", ["", "No topology information available", "SwitchName=s0 Level=0 Nodes=n[1"])
def test_without_a_topology_that_can_be_read_there_is_no_domain(text):
    assert domains.leaves(text) == {}


def test_a_wrong_node_list_in_the_configuration_names_the_key():
    with pytest.raises(ConfigError, match=r"policy\.budget\.domains\.rack1"):
        domains.of({"rack1": "n[1"})


def test_what_we_took_out_counts_in_each_partition_and_domain_of_the_node():
    nodes = [node("n1"), node("n2", OUT, OURS), node("n3", OUT, "admin"), node("n5", OUT, OURS, ("main", "big"))]

    assert domains.standing(nodes[0], nodes, domains.leaves(TREE)) == Standing(
        {"main": Share(4, 2)}, {"domain s0": Share(3, 1)}
    )


@pytest.mark.parametrize(
    ("out", "refusal"),
    [
        (1, None),
        (2, "2 of 8 nodes of domain s0 are out already and the budget is 2"),
    ],
)
def test_a_domain_has_a_budget_of_its_own(out, refusal):
    standing = Standing({"main": Share(400, out)}, {"domain s0": Share(8, out)})

    assert refused(standing, BudgetSection()) == refusal


def test_the_absolute_limit_is_of_partitions_and_a_small_domain_may_lose_one_node():
    budget = BudgetSection(max_nodes=1)

    assert refused(Standing({"main": Share(400, 1)}, {}), budget) is not None
    assert refused(Standing({}, {"domain s0": Share(2, 0)}), budget) is None
    assert refused(Standing({}, {"domain s0": Share(2, 1)}), budget) is not None


@pytest.fixture
def ledger(tmp_path):
    store = Ledger(tmp_path / "ledger.db")
    yield store
    store.close()


@pytest.mark.parametrize(
    ("configured", "switches", "out"),
    [
        pytest.param({}, {}, True, id="no domains"),
        pytest.param({}, {"s0": frozenset({"n1", "n2"})}, False, id="a leaf switch of Slurm's"),
        pytest.param({"rack1": "n[1-2]"}, {}, False, id="a rack of the configuration's"),
        pytest.param({"rack1": "n[2-3]"}, {"s0": frozenset({"n1", "n2"})}, True, id="the configuration comes first"),
    ],
)
def test_the_gate_asks_for_the_budget_of_the_domain(ledger, configured, switches, out):
    others = [node(f"n{number}") for number in range(3, 40)]
    slurm = FakeSlurm(node("n1", OUT, OURS), node("n2"), *others)
    slurm.switches = switches
    gate = Gate(slurm, ledger, PolicySection(mode="full", budget={"domains": configured}), clock=lambda: 1200.0)

    answer = asyncio.run(gate.ask(Leave("n2", BOOT, "epilog", (xid79(),), "12")))

    assert answer.out is out
    assert ("of domain" in answer.reason) is not out
