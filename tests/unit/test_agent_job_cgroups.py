"""The samples of running jobs: from the first look to the last, bounded, and gone with the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.make import BOOT
from wheeltapper.checks.model import Host
from wheeltapper.config import ContentionSection
from wheeltapper.contention import Sample
from wheeltapper_hooks.agent import job_cgroups
from wheeltapper_hooks.agent.job_cgroups import SAMPLES_MAX, JobCgroups

HOST = Host("n1", BOOT)


@pytest.fixture
def taken(monkeypatch):
    """What is judged in the end, and how many looks there were; the cgroup of job 13 cannot be found."""
    judged: list[list[float]] = []
    clock = iter(range(10_000))
    monkeypatch.setattr(
        job_cgroups.contention, "of_job", lambda _host, job: None if job == "13" else Path(f"/job_{job}")
    )
    monkeypatch.setattr(
        job_cgroups.contention, "read", lambda _host, cgroup: Sample(0.0, float(next(clock)), str(cgroup))
    )
    monkeypatch.setattr(
        job_cgroups.contention,
        "judge",
        lambda samples, _host, _limits: judged.append([each.clock for each in samples]) or [],
    )
    return judged


def test_a_job_is_judged_from_its_first_sample_to_its_last(taken):
    cgroups = JobCgroups(HOST, lambda: ["12"], ContentionSection())
    cgroups.sample()
    cgroups.sample()
    cgroups.conclude("12")
    cgroups.conclude("12")

    assert taken == [[0.0, 1.0, 2.0], [3.0]]


def test_the_first_sample_stays_when_there_are_too_many(taken):
    cgroups = JobCgroups(HOST, lambda: ["12"], ContentionSection())
    for _ in range(SAMPLES_MAX + 10):
        cgroups.sample()
    cgroups.conclude("12")

    assert len(taken[0]) == SAMPLES_MAX
    assert (taken[0][0], taken[0][-1]) == (0.0, SAMPLES_MAX + 10.0)


def test_a_job_that_is_gone_or_has_no_cgroup_leaves_nothing(taken):
    jobs = ["12", "13"]
    cgroups = JobCgroups(HOST, lambda: jobs, ContentionSection())
    cgroups.sample()
    jobs.remove("12")
    cgroups.sample()
    cgroups.conclude("13")
    jobs.append("12")
    cgroups.conclude("12")

    assert taken == [[], [1.0]]


def test_a_cgroup_that_cannot_be_read_is_logged_and_costs_nothing_else(monkeypatch, caplog):
    def fail(_host, _cgroup):
        raise PermissionError("not ours")

    monkeypatch.setattr(job_cgroups.contention, "of_job", lambda *_: Path("/job_12"))
    monkeypatch.setattr(job_cgroups.contention, "read", fail)
    cgroups = JobCgroups(HOST, lambda: ["12"], ContentionSection())
    cgroups.sample()

    assert cgroups.conclude("12") == []
    assert "The cgroup of job 12 cannot be read: not ours." in caplog.text
