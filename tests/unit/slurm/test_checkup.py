"""What in slurm.conf would hurt users."""

from __future__ import annotations

import pytest

from wheeltapper.config import PolicySection
from wheeltapper_slurm.checkup import Surroundings, Weight, advise, advise_around

HOOKS = "/opt/wheeltapper/share/wheeltapper/hooks"
GOOD = {
    "PrologFlags": "Alloc",
    "SchedulerParameters": "bf_interval=30,nohold_on_prolog_fail",
    "Prolog": f"{HOOKS}/prolog",
    "Epilog": f"{HOOKS}/epilog",
    "EpilogSlurmctld": "/opt/wheeltapper/share/wheeltapper/slurm/epilogslurmctld",
    "HealthCheckProgram": f"{HOOKS}/healthcheck",
    "HealthCheckInterval": "300 sec",
    "HealthCheckNodeState": "ANY,CYCLE",
    "MessageTimeout": "10 sec",
    "PrologEpilogTimeout": "60",
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStoreFlags": "job_comment",
    "JobRequeue": "1",
    "RequeueExit": "(null)",
    "SlurmctldParameters": "(null)",
    "RebootProgram": "(null)",
}


def test_nothing_is_said_of_a_slurm_conf_that_is_right():
    assert advise(GOOD, PolicySection()) == []


@pytest.mark.parametrize(
    ("changes", "weight", "about", "words"),
    [
        ({"PrologFlags": "(null)"}, "danger", "PrologFlags", "lacks Alloc"),
        ({"PrologFlags": "Serial"}, "danger", "PrologFlags", "lacks Alloc"),
        ({"PrologFlags": "Contain,ForceRequeueOnFail"}, "hint", "PrologFlags", "--no-requeue"),
        ({"SchedulerParameters": "(null)"}, "danger", "SchedulerParameters", "holds every job"),
        ({"Prolog": "(null)"}, "danger", "Prolog", "no node is checked"),
        ({"Epilog": "(null)"}, "danger", "Epilog", "is not set"),
        ({"EpilogSlurmctld": ""}, "danger", "EpilogSlurmctld", "no end of a job"),
        ({"Epilog": "/etc/slurm/epilog.d/*"}, "hint", "Epilog", "several programs"),
        ({"Epilog": f"/site/epilog,{HOOKS}/epilog"}, "hint", "Epilog", "the first that fails stops the rest"),
        ({"Epilog": f"/site/epilog,{HOOKS}/epilog"}, "hint", "Epilog", "several"),
        ({"Prolog": "/site/prolog"}, "hint", "Prolog", "calls ours"),
        ({"HealthCheckProgram": "(null)"}, "hint", "HealthCheckProgram", "stays idle"),
        ({"HealthCheckInterval": "0 sec"}, "hint", "HealthCheckInterval", "never runs"),
        ({"HealthCheckNodeState": "IDLE"}, "hint", "HealthCheckNodeState", "lacks ANY"),
        ({"MessageTimeout": "5 sec"}, "danger", "MessageTimeout", "10 or more"),
        ({"PrologEpilogTimeout": "3"}, "danger", "PrologEpilogTimeout", "would kill our hooks"),
        ({"PrologEpilogTimeout": "65534"}, "hint", "PrologEpilogTimeout", "may hang for ever"),
        ({"AccountingStorageType": "accounting_storage/none"}, "hint", "AccountingStorageType", "no slurmdbd"),
        ({"AccountingStoreFlags": "(null)"}, "hint", "AccountingStoreFlags", "job_comment"),
        ({"JobRequeue": "0"}, "hint", "JobRequeue", "--requeue"),
        ({"RequeueExit": "7"}, "hint", "RequeueExit", "by exit code, whatever"),
        ({"SlurmctldParameters": "enable_expedited_requeue"}, "hint", "SlurmctldParameters", "leave such jobs"),
    ],
)
def test_each_danger_and_each_hint_is_named_with_what_it_means(changes, weight, about, words):
    [said] = advise({**GOOD, **changes}, PolicySection())

    assert (said.weight.value, said.about) == (weight, about)
    assert words in said.sentence


def test_the_timeouts_that_newer_releases_have_apart_count():
    apart = {**GOOD, "PrologEpilogTimeout": "65534", "PrologTimeout": "60", "EpilogTimeout": "5"}

    assert [each.about for each in advise(apart, PolicySection())] == ["EpilogTimeout"]


def test_a_reboot_that_is_wanted_needs_a_program():
    assert [each.about for each in advise(GOOD, PolicySection(reboot=True))] == ["RebootProgram"]
    assert advise({**GOOD, "RebootProgram": "/sbin/reboot"}, PolicySection(reboot=True)) == []


def test_dangers_come_first():
    found = advise({}, PolicySection())

    assert [each.weight for each in found] == sorted((each.weight for each in found), key=lambda w: w is Weight.HINT)
    assert found[0].weight is Weight.DANGER


def test_what_lies_around_is_dangerous_when_it_is_wrong():
    assert advise_around(Surroundings()) == []
    assert [(each.about, each.sentence) for each in advise_around(Surroundings(key="no key", service="away"))] == [
        ("key file", "no key"),
        ("controller service", "away"),
    ]
