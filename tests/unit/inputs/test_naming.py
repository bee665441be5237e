"""Which node and moment a file speaks of."""

from __future__ import annotations

import pytest

from tests.unit.inputs.given import moment as utc
from wheeltapper.inputs.model import Document
from wheeltapper.inputs.naming import moment, node_in_name, scoped


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("nvidia-smi-q.gpu-c13.txt", "gpu-c13"),
        ("ibstat-big-15.txt", "big-15"),
        ("dmesg.n2.log", "n2"),
        ("kern-gpu-node-07.log", "gpu-node-07"),
        ("n13/cpu.stat", "n13"),
        ("n7.cluster.local/memory.events", "n7"),
        ("perfquery.before.txt", None),
        ("nvidia-smi-q.idle.txt", None),
        ("nvidia-smi-gpu0.txt", None),
        ("run3/cpu.stat", None),
        ("attempt-0/cpu.stat", None),
        ("/home/u12/cpu.stat", None),
        ("sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", None),
    ],
)
def test_a_node_is_what_is_left_of_a_name_without_tools_and_moments(name, node):
    assert node_in_name(name) == node


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("Timestamp     : Tue Mar 11 02:48:19 2025", "2025-03-11T02:48:19"),
        ("Mon Mar 10 06:40:02 UTC 2025 prolog job 5", "2025-03-10T06:40:02"),
        ("# 2024-10-02T17:12:40 ethtool -S rdma2", "2024-10-02T17:12:40"),
        ("# p-0 2024-02-11T10:02:00+02:00 /sys/fs/cgroup/cpu.stat", "2024-02-11T08:02:00"),
    ],
)
def test_moments_are_read_as_tools_print_them(text, when):
    assert moment(text) == utc(when)


def test_no_moment_is_none():
    assert moment("Mon Foo 33 06:40:02 2025") is None
    assert moment("step 5") is None


def test_headings_name_the_node_of_what_stands_below():
    text = "x 1\n== n2 port\nx 2\n# Port counters: Lid 5\nx 3\n##### w1\nx 4\nn5: x 5\n# mlx5_0\nx 6\nrx_prio3_pause: 7"
    lines = [(line.text, scope.node) for line, scope in scoped(Document("f", text.encode()).lines, "n0")]
    assert [node for words, node in lines if words.startswith(("x", "rx"))] == [
        "n0",
        "n2",
        "n2",
        "w1",
        "n5",
        "n5",
        "n5",
    ]
    assert ("x 5", "n5") in lines
