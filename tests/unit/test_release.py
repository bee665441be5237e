"""When a node that we took out may work again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.make import BOOT, xid79
from wheeltapper.config import PolicySection
from wheeltapper.evidence import Disposition
from wheeltapper.ledger.model import Outcome, Quarantine
from wheeltapper.policy import release
from wheeltapper.policy.release import Step
from wheeltapper.verdict import State
from wheeltapper.wire import Health

OTHER_BOOT = "99999999-2222-3333-4444-555555555555"
DAY_S = 86_400.0


def out(**changes):
    """Node n2, taken out for a GPU that fell off the bus."""
    values = {
        "node": "n2", "key": f"{BOOT}:7", "label": "hardware/gpu_xid", "detail": "xid=79", "reason": "wheeltapper: …",
        "job": "12", "at": 1000.0, "outcome": Outcome.DONE, "disposition": Disposition.REBOOT, "boot_id": BOOT,
    }  # fmt: skip
    return Quarantine(**{**values, **changes})


def health(state=State.OK, *, boot_id=OTHER_BOOT, held_s=600.0):
    return Health("n2", boot_id, state, held_s)


@pytest.mark.parametrize(
    ("disposition", "said", "step", "why"),
    [
        pytest.param("reboot", health(), Step.RELEASE, "passed its checks for 600 s", id="rebooted and fit"),
        pytest.param("reboot", health(State.WARN), Step.RELEASE, "passed", id="a verdict that lets jobs in"),
        pytest.param("reboot", health(boot_id=BOOT), Step.WAIT, "not rebooted", id="fit, in the boot of the fault"),
        pytest.param("reboot", health(held_s=599.0), Step.WAIT, "600 s first", id="fit for too short a time"),
        pytest.param("reboot", health(State.FAIL), Step.WAIT, "verdict is fail", id="broken again"),
        pytest.param("reboot", health(State.UNKNOWN), Step.WAIT, "unknown", id="it could not look"),
        pytest.param("reboot", None, Step.WAIT, "says nothing", id="its agent is silent"),
        pytest.param("reset_gpu", health(boot_id=BOOT), Step.RELEASE, "passed", id="reset, in the same boot"),
        pytest.param("inspect", health(), Step.PERSON, "inspect", id="to be inspected"),
        pytest.param("replace", health(), Step.PERSON, "replace", id="to be replaced"),
        pytest.param("none", health(), Step.PERSON, "none", id="a record of before this was written down"),
    ],
)
def test_what_the_fault_asked_for_must_have_happened_and_the_checks_must_pass(disposition, said, step, why):
    following = release.next_step(out(disposition=Disposition(disposition)), 1, said, PolicySection())

    assert following.step is step
    assert why in following.why


def test_a_reboot_is_asked_for_only_where_that_is_wanted_and_only_in_the_boot_of_the_fault():
    policy = PolicySection(reboot=True)

    assert release.next_step(out(), 1, health(State.FAIL, boot_id=BOOT), policy).step is Step.REBOOT
    assert release.next_step(out(), 1, health(), policy).step is Step.RELEASE
    assert release.next_step(out(disposition=Disposition.INSPECT), 1, health(boot_id=BOOT), policy).step is Step.PERSON
    assert release.next_step(out(), 1, None, policy).step is Step.WAIT


def test_repeat_offenders_and_sites_that_want_it_wait_for_a_person():
    policy = PolicySection()

    assert release.next_step(out(), 2, health(), policy).step is Step.RELEASE
    held = release.next_step(out(), 3, health(), policy)
    assert (held.step, held.why) == (Step.PERSON, "it was out 3 times in 30 days, a person decides")
    manual = PolicySection(release={"automatic": False})
    assert release.next_step(out(), 1, health(), manual).step is Step.PERSON


def test_only_times_that_the_node_went_out_count_and_only_lately():
    at = 100 * DAY_S
    history = [
        out(at=at - 31 * DAY_S),
        out(at=at - 20 * DAY_S),
        out(at=at - 19 * DAY_S, outcome=Outcome.RELEASED),
        out(at=at - 3 * DAY_S, outcome=Outcome.OBSERVED),
        out(at=at - 2 * DAY_S),
        out(at=at - 1 * DAY_S, first=False),
    ]

    assert release.times_out(history, at, PolicySection()) == 2


def test_a_node_is_out_until_we_or_a_person_put_it_back():
    gone, back = out(), out(at=2000.0, outcome=Outcome.RELEASED)
    other = out(node="n1", at=1500.0)

    assert release.standing([gone, other]) == [other, gone]
    assert release.standing([gone, other, back]) == [other]
    assert release.standing([gone, out(outcome=Outcome.FAILED)]) == [gone]
    assert release.standing([gone, replace(back, outcome=Outcome.UNDONE)]) == []


def test_what_a_person_undid_is_settled_and_what_we_released_is_not():
    """A GPU that comes back and is lost again has the same key: the second time it must go out again."""
    assert release.settled([out()]) == {f"{BOOT}:7"}
    assert release.settled([out(), out(outcome=Outcome.UNDONE)]) == {f"{BOOT}:7"}
    assert release.settled([out(), out(outcome=Outcome.RELEASED)]) == frozenset()
    graver = out(key="k2", first=False)
    assert release.settled([out(), graver, replace(graver, outcome=Outcome.RELEASED)]) == frozenset()
    assert release.settled([out(), graver, replace(graver, outcome=Outcome.UNDONE)]) == {f"{BOOT}:7", "k2"}
    assert release.settled([out(outcome=Outcome.OBSERVED), out(outcome=Outcome.FAILED)]) == frozenset()


def test_what_only_a_person_can_settle_is_stricter_than_a_reboot():
    findings = [xid79(), replace(xid79(), disposition=Disposition.INSPECT)]

    assert release.strictest(findings) is Disposition.INSPECT
    assert release.strictest([]) is Disposition.NONE
    assert release.stricter(Disposition.INSPECT, Disposition.REBOOT)
    assert not release.stricter(Disposition.RESET_GPU, Disposition.REBOOT)


def test_a_fault_is_mended_by_a_reboot_when_it_asks_for_no_more_and_the_checks_pass():
    inspect = replace(xid79(), disposition=Disposition.INSPECT)

    assert release.mended([xid79()], BOOT, health())
    assert not release.mended([xid79()], BOOT, health(boot_id=BOOT))
    assert not release.mended([xid79()], BOOT, health(State.FAIL))
    assert not release.mended([xid79(), inspect], BOOT, health())
    assert not release.mended([xid79()], BOOT, None)
