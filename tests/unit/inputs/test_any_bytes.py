"""No file can stop the reading: every reader is given what it recognises, broken in every way."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.inputs import (
    test_counters,
    test_filesystems,
    test_gpus,
    test_kubernetes,
    test_node_tools,
    test_recorder,
    test_slurm,
    test_slurm_json,
)
from tests.unit.inputs.given import of
from wheeltapper.inputs.registry import all_readers, reader_for

SEEDS: dict[str, bytes] = {
    "perfquery.n1.before.txt": test_counters.ports(test_counters.BEFORE, n1=3).encode(),
    "nic.txt": test_counters.nics("2024-10-02T15:58:04", {"w1": 10}, 9).encode(),
    "cpu.stat": b"nr_periods 5\nnr_throttled 4\nthrottled_usec 3\n",
    "smi.txt": (test_gpus.HEAD + test_gpus.GPU.format(**test_gpus.WELL)).encode(),
    "smi.csv": b"pci.bus_id, temperature.gpu, clocks.sm\n00000000:1B:00.0, 92, 345\n",
    "sel.txt": test_gpus.SEL.encode(),
    "df.txt": test_filesystems.DF.encode(),
    "sacct.txt": test_slurm.SACCT.format(state="NODE_FAIL", code="0:1").encode(),
    "job.json": test_slurm_json.sacct().encode(),
    "job.txt": test_slurm.JOB.format(state="TIMEOUT", reason="TimeLimit").encode(),
    "pod.json": json.dumps(test_kubernetes.pod(reason="Evicted", message="x"), indent=1).encode(),
    "events.txt": test_kubernetes.EVENTS.encode(),
    "error.json": b'{"message": {"message": "KeyError: 1", "extraInfo": {"py_callstack": "x", "timestamp": "1"}}}',
    "ibstat-n1.txt": test_node_tools.ibstat(test_node_tools.UP, test_node_tools.UP, test_node_tools.POLLING).encode(),
    "sdr.txt": test_node_tools.SENSORS.format(cpu="98 degrees C      | cr", fan="0 RPM      | nr").encode(),
    "io.pressure": test_node_tools.PRESSURE.format("71.20").encode(),
    "health.txt": test_node_tools.HEALTH.format(word="Failure").encode(),
    "describe.txt": test_node_tools.DESCRIBE.format(reason="OOMKilled", event="Evicted  1m  kubelet  x").encode(),
    "plugin.log": test_kubernetes.PLUGIN.format(code=79).encode(),
    "_dump_1": test_recorder.dump(test_recorder.done(1), test_recorder.op(2)),
    "_dump_2": test_recorder.dump(test_recorder.done(1)),
}


def test_every_reader_has_a_seed_that_it_recognises():
    known = {id(reader_for(name, data)) for name, data in SEEDS.items()}
    assert known == {id(reader) for reader in all_readers()}


@st.composite
def broken(draw: st.DrawFn) -> dict[str, bytes]:
    names = draw(st.lists(st.sampled_from(sorted(SEEDS)), min_size=1, max_size=3, unique=True))
    files = {}
    for name in names:
        data = SEEDS[name]
        for _ in range(draw(st.integers(1, 3))):
            start = draw(st.integers(0, len(data)))
            stop = draw(st.integers(start, min(len(data), start + 40)))
            data = data[:start] + draw(st.binary(max_size=12)) + data[stop:]
        files[name] = data
    return files


@settings(max_examples=200, deadline=None)
@given(broken())
def test_broken_documents_are_read_as_far_as_they_go(files):
    for each in of(dict(files)).findings:
        assert each.evidence.text == each.evidence.text[:400]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(SEEDS)), st.binary(max_size=300))
def test_any_bytes_under_any_name(name, data):
    of({name: data})
