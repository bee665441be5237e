"""A node tells how it is, also while no job runs there."""

from __future__ import annotations

import re

from tests.integration.node import Node, until
from wheeltapper.verdict import State
from wheeltapper.wire import Health


def test_a_node_tells_at_once_that_it_broke_and_on_which_faults(node: Node, serve):
    service = serve()
    node.start()
    service.heard(Health)

    node.convict()

    until(lambda: service.of(Health)[-1].state is State.FAIL, "the node to say that it failed")
    last = service.of(Health)[-1]
    assert last.node == "n1"
    assert [each.detail for each in last.findings] == ["xid=79"]


def test_a_broken_node_tells_which_jobs_are_there_and_since_when(node: Node, serve):
    node.configure(node={"gpus": ["0000:3b:00", "0000:5e:00"]})
    service = serve()
    node.start()
    node.hook("prolog", "12", SLURM_JOB_GPUS="1")
    assert service.heard(Health)[-1].stays == ()

    node.convict()

    until(lambda: service.of(Health)[-1].state is State.FAIL, "the node to say that it failed")
    last = service.of(Health)[-1]
    [stay] = last.stays
    assert (stay.job, stay.gpus, stay.epilog_at) == ("12", ("0000:5e:00",), None)
    assert stay.prolog_at <= last.findings[0].evidence.at


def test_a_node_says_again_and_again_how_long_it_has_been_so(node: Node, serve):
    node.configure(agent={"health_interval_s": 0.2})
    service = serve()
    node.start()

    told = [each for each in service.heard(Health, 6) if each.state is State.OK]

    assert {each.boot_id for each in told} == {told[0].boot_id}
    assert re.fullmatch(r"[0-9a-f-]{36}", told[0].boot_id)
    held = [each.held_s for each in told]
    assert held == sorted(set(held)), "it grows"


def test_an_agent_that_starts_again_begins_to_count_anew(node: Node, serve):
    node.configure(agent={"health_interval_s": 0.2})
    service = serve()
    node.start()
    until(lambda: any(each.held_s > 1.0 for each in service.of(Health)), "the node to have been well for a second")
    node.stop()
    before = len(service.of(Health))

    node.start()

    first = service.heard(Health, before + 1)[before]
    assert first.held_s < 1.0
