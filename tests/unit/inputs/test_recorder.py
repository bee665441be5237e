"""The flight recorder's dumps: who never came, and a pickle that cannot do anything."""

from __future__ import annotations

import json
import os
import pickle
import re

import pytest

from tests.shared import shared
from tests.unit.inputs.given import of, reading
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.inputs.readers.flight_recorder import load

WORLD = list(range(4))


def op(
    sequence: int, *, group: str = "0", name: str = "all_reduce", state: str = "scheduled", size: int = 8, p2p: int = 0
):
    return {
        "record_id": sequence,
        "pg_id": 0,
        "process_group": (group, "a group"),
        "collective_seq_id": sequence,
        "p2p_seq_id": p2p,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": 10**18 + sequence,
        "input_sizes": [[size]],
        "output_sizes": [[size]],
        "state": state,
        "is_p2p": bool(p2p),
        "retired": state == "completed",
    }


def dump(*entries, groups=None) -> bytes:
    config = {
        name: {"name": name, "desc": "d", "ranks": json.dumps(ranks)}
        for name, ranks in (groups or {"0": WORLD}).items()
    }
    return pickle.dumps({"version": "2.9", "pg_config": config, "pg_status": {}, "entries": list(entries)}, protocol=2)


def silent(dumps: dict[int, bytes]) -> set[int]:
    found = of({f"nccl_trace_rank_{rank}": data for rank, data in dumps.items()})
    answer = diagnose(found.findings, None, window_s=1800)
    return {suspect.rank for suspect in answer.suspects if suspect.rank is not None}


def done(sequence: int, **more):
    return op(sequence, state="completed", **more)


def test_the_rank_that_did_not_take_its_turn_is_named():
    came = dump(done(1), op(2))
    assert silent({0: came, 1: came, 2: dump(done(1)), 3: came}) == {2}


def test_a_rank_that_waits_in_another_group_passes_the_blame_on():
    groups = {"0": WORLD, "1": [2, 3]}
    came = dump(done(1), op(2), groups=groups)
    # 2 never came to the second turn of all, because it waits for 3 in their own group.
    dumps = {0: came, 1: came, 2: dump(done(1), op(1, group="1"), groups=groups), 3: dump(done(1), groups=groups)}
    assert silent(dumps) == {3}


def test_a_gpu_that_did_not_end_what_all_others_ended_is_named_though_its_rank_came():
    through, hung = dump(done(1), done(2), op(3)), dump(done(1), op(2), op(3))
    assert silent({0: through, 1: hung, 2: through, 3: through}) == {1}


def test_a_broadcast_that_its_source_ended_accuses_nobody():
    source, waiting = dump(done(1, name="broadcast"), op(2)), dump(op(1, name="broadcast"), op(2))
    assert silent({0: source, 1: waiting, 2: waiting, 3: waiting}) == set()


def test_a_send_waits_for_its_peer():
    groups = {"0": WORLD, "5": [1, 3]}
    sender = dump(op(1, group="5", name="send 0->1", p2p=4), groups=groups)
    assert silent({0: dump(groups=groups), 1: sender, 2: dump(groups=groups), 3: dump(groups=groups)}) == {3}


def test_a_rank_without_a_dump_is_named_unless_most_are_without():
    came = dump(done(1), op(2))
    assert silent({0: came, 1: came, 2: came}) == {3}
    assert silent({0: came}) == set()


def test_ranks_that_wait_for_each_other_name_nobody():
    groups = {"0": WORLD, "5": [0, 1]}
    dumps = {
        0: dump(op(1, group="5", name="send 0->1", p2p=1), groups=groups),
        1: dump(op(1, group="5", name="send 1->0", p2p=1), groups=groups),
    }
    assert silent(dumps) == set()


@pytest.mark.parametrize("odd", [op(2, name="_all_gather_base"), op(2, size=16)], ids=["another kind", "another size"])
def test_another_collective_at_the_same_turn_is_a_deadlock_of_the_program(odd):
    came = dump(done(1), op(2))
    found = of({f"_dump_{rank}": dump(done(1), odd) if rank == 2 else came for rank in WORLD})
    answer = diagnose(found.findings, None, window_s=1800)
    assert (answer.label, answer.chain[0].evidence.rank) == ("software/deadlock", 2)


def test_all_to_all_may_differ_in_size():
    dumps = {rank: dump(done(1), op(2, name="all_to_all", size=rank)) for rank in WORLD}
    found = of({f"_dump_{rank}": data for rank, data in dumps.items()})
    assert found.findings == ()


def test_the_json_form_says_the_same():
    came, late = (json.dumps(pickle.loads(data)) for data in (dump(done(1), op(2)), dump(done(1))))
    found = of({f"trace_{rank}.json": late if rank == 1 else came for rank in WORLD})
    assert [each.evidence.rank for each in found.findings] == [1]


def test_dumps_of_before_pytorch_2_4_count_with_one_number():
    def old(*entries):
        plain = pickle.loads(dump(*entries))
        for each in plain["entries"]:
            each["seq_id"] = each.pop("collective_seq_id")
            del each["p2p_seq_id"]
        return pickle.dumps(plain, protocol=2)

    came = old(done(1), op(2))
    assert silent({0: came, 1: came, 2: old(done(1)), 3: came}) == {2}


class Evil:
    def __reduce__(self):
        return os.putenv, ("WHEELTAPPER_PWNED", "1")


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({"pg_config": {}, "entries": [Evil()]}, protocol=2),
        b"\x80\x02cos\nsystem\n(S'true'\ntR.",
        b"\x80\x02}r\xff\xff\xff\xff.",
        dump(op(1))[:-20],
        b"\x80\x02.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x0f",
        b"{not json",
    ],
    ids=["reduce", "global", "a huge memo index", "cut", "nothing", "a huge length", "no json"],
)
def test_a_forged_or_cut_dump_is_none_and_does_nothing(data):
    loaded = load(data)
    assert loaded is None or loaded == {}
    assert reading("_dump_1", data).dumps in {(), None}
    assert "WHEELTAPPER_PWNED" not in os.environ


@pytest.mark.shared
@pytest.mark.parametrize("run", ["gpu_error_1st", "lock_gil_1st"])
def test_in_real_dumps_the_injected_ranks_are_named_and_no_other(run):
    folder = shared(f"data/flight_recorder/{run}")
    truth = re.search(r"Fault ranks: \[([\d, ]+)\]", (folder / "fault_injection.log").read_text())
    assert truth is not None
    dumps = {int(path.name.removeprefix("_dump_")): path.read_bytes() for path in folder.glob("_dump_*")}
    assert len(dumps) == 16
    assert silent(dumps) == {int(rank) for rank in truth[1].split(",")}
