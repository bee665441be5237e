"""What makes the readings one case."""

from __future__ import annotations

from itertools import permutations

from tests.unit.inputs.given import of
from tests.unit.inputs.test_gpus import SEL
from wheeltapper import codec
from wheeltapper.diagnosis.diagnose import diagnose

LOST = "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.\n"
KERNEL = "Aug 11 23:39:00 {node} kernel: [    9.1] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
LOGGED = "n5:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n2<4133>\n"


def nodes(files: dict[str, str | bytes]) -> list[str | None]:
    return [each.evidence.node for each in of(files).findings if each.label == "hardware/gpu_lost"]


def test_a_file_without_a_node_is_of_the_only_node_that_was_looked_at():
    assert nodes({"smi.txt": LOST, "kern.log": KERNEL.format(node="n7")}) == ["n7"]


def test_it_is_of_no_node_where_several_were_looked_at_or_only_a_log_names_one():
    files = {"smi.txt": LOST, "kern1.log": KERNEL.format(node="n7"), "kern2.log": KERNEL.format(node="n8")}
    assert nodes(files) == [None]
    assert nodes({"smi.txt": LOST, "slurm-1.out": LOGGED}) == [None]


def test_the_order_of_the_files_changes_nothing_in_the_answer():
    names = ["smi.txt", "kern.log", "slurm-1.out", "sel.txt"]
    texts = [LOST, KERNEL.format(node="n7"), LOGGED, SEL]
    answers = {
        codec.dumps(diagnose(of(dict(order)).findings, None, window_s=1800))
        for order in permutations(zip(names, texts, strict=True))
    }
    assert len(answers) == 1
