"""What a person is advised to do."""

from __future__ import annotations

import pytest

from tests.unit.make import logged, xid79
from wheeltapper.diagnosis.advice import Action, advise, nothing_happened
from wheeltapper.diagnosis.model import Diagnosis, Suspect
from wheeltapper.evidence import Disposition
from wheeltapper.labels import UNKNOWN, label


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("hardware/thermal", Action.REQUEUE_EXCLUDE_NODE),
        ("software/oom", Action.NO_REQUEUE),
        ("software/user_code", Action.NO_REQUEUE),
        ("network/nccl_timeout", Action.REQUEUE),
        ("resource/host_oom", Action.NO_REQUEUE),
        ("resource/cpu_throttle", Action.REQUEUE),
        ("scheduler/preempted", Action.REQUEUE),
        ("scheduler/evicted", Action.REQUEUE),
        ("scheduler/time_limit", Action.NO_REQUEUE),
        ("scheduler/cancelled", Action.NO_REQUEUE),
    ],
)
def test_each_kind_has_its_advice(name, action):
    assert advise(Diagnosis(label=label(name), chain=(logged(name),))) is action


def test_broken_hardware_is_to_be_drained():
    answer = Diagnosis(label=label("hardware/gpu_xid"), disposition=Disposition.REBOOT, chain=(xid79(),))
    assert advise(answer) is Action.DRAIN_NODE


def test_one_suspect_node_is_left_out_and_several_are_not():
    one = (Suspect(node="n2"),)
    for suspects, action in ((one, Action.REQUEUE_EXCLUDE_NODE), ((*one, Suspect(node="n3")), Action.REQUEUE)):
        assert advise(Diagnosis(label=label("network/link_down"), suspects=suspects)) is action


def test_an_unexplained_end_is_tried_again_and_no_end_is_left_alone():
    echo = Diagnosis(symptom=UNKNOWN)
    assert (advise(echo), nothing_happened(echo)) == (Action.REQUEUE, False)
    assert (advise(Diagnosis()), nothing_happened(Diagnosis())) == (Action.NONE, True)
