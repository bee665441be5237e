"""Which of its consequences, or which look of its own, a cause is known by."""

from __future__ import annotations

from tests.unit.evidence import kernel, log, watchdog, xid
from wheeltapper.diagnosis.diagnose import diagnose


def symptom_of(*groups):
    answer = diagnose([each for group in groups for each in group], None, window_s=1800.0)
    return answer.label, answer.symptom


MACHINE_CHECK = "mce: [Hardware Error]: CPU 93: Machine Check Exception: 5 Bank 0: b200000000030005"
FRAGMENTED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.58 GiB. GPU 2 has a total capacity of 23.69 GiB of "
    "which 118.56 MiB is free. Of the allocated memory 12.94 GiB is allocated by PyTorch, and 10.12 GiB is reserved by "
    "PyTorch but unallocated."
)


def test_a_node_that_went_down_is_the_symptom_before_what_its_peers_saw():
    down = log("srun: error: Node failure on n2", *watchdog(0, 1))
    assert symptom_of(kernel(MACHINE_CHECK), down) == ("hardware/host_cpu", "hardware/node_down")
    assert symptom_of(kernel(MACHINE_CHECK), log(*watchdog(0, 1)))[1] == "network/nccl_timeout"


def test_fragmented_memory_looks_like_memory_that_ran_out():
    assert symptom_of(log(FRAGMENTED)) == ("resource/gpu_memory_fragmentation", "software/oom")


def test_a_programs_own_fault_looks_like_an_xid_where_only_the_driver_tells_of_it():
    assert symptom_of(xid(13)) == ("software/cuda_fault", "hardware/gpu_xid")
    assert symptom_of(xid(79)) == ("hardware/gpu_xid", None)


def test_a_consequence_goes_before_the_look_of_the_cause():
    assert symptom_of(xid(31), log(*watchdog(0, 1))) == ("software/cuda_fault", "network/nccl_timeout")
