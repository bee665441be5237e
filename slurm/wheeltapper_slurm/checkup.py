"""``wheeltapper slurm check``: what in slurm.conf and around it is missing or would hurt users. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from wheeltapper.config import PolicySection

HOOK_S = 6.0
"""Our hooks end by themselves within this many seconds."""

_UNSET = {"", "(null)", "none"}
_NO_LIMIT = {"0", "65534", "65535", "INFINITE", "NONE"}
"""How Slurm's releases print a timeout that is not set."""

Configuration = Mapping[str, str]


class Weight(str, Enum):
    """How much a piece of advice matters."""

    DANGER = "danger"
    HINT = "hint"


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that is not as it should be: ``about`` names the key or file, ``sentence`` says why and what to do."""

    weight: Weight
    about: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What lies beside slurm.conf: each is why something is wrong, empty when it is right."""

    key: str = ""
    spool: str = ""
    service: str = ""


def advise(configuration: Configuration, policy: PolicySection) -> list[Advice]:
    """Return what should be changed in what ``scontrol show config`` shows, the dangerous first."""
    found = [advice for rule in _RULES for advice in rule(configuration, policy)]
    return sorted(found, key=lambda each: each.weight is not Weight.DANGER)


def advise_around(around: Surroundings) -> list[Advice]:
    """Return what is wrong beside slurm.conf."""
    wrong = {"key file": around.key, "spool folder": around.spool, "controller service": around.service}
    return [Advice(Weight.DANGER, about, sentence) for about, sentence in wrong.items() if sentence]


def _danger(about: str, sentence: str) -> Advice:
    return Advice(Weight.DANGER, about, sentence)


def _hint(about: str, sentence: str) -> Advice:
    return Advice(Weight.HINT, about, sentence)


def _value(configuration: Configuration, key: str) -> str:
    value = configuration.get(key, "")
    return "" if value.lower() in _UNSET else value


def _seconds(configuration: Configuration, key: str) -> float | None:
    """Return a timeout in seconds; None when there is none."""
    value = _value(configuration, key).partition(" ")[0]
    return float(value) if value.isdigit() and value not in _NO_LIMIT else None


def _prolog_flags(configuration: Configuration, _: PolicySection) -> Iterator[Advice]:
    flags = set(_value(configuration, "PrologFlags").lower().split(","))
    if not {"alloc", "contain"} & flags:
        yield _danger("PrologFlags", "PrologFlags lacks Alloc, so nodes on which no step starts are never checked")
    if "forcerequeueonfail" in flags:
        yield _hint("PrologFlags", "ForceRequeueOnFail requeues jobs that were submitted with --no-requeue, too")


def _hold(configuration: Configuration, _: PolicySection) -> Iterator[Advice]:
    if "nohold_on_prolog_fail" not in _value(configuration, "SchedulerParameters").lower():
        yield _danger(
            "SchedulerParameters",
            "SchedulerParameters lacks nohold_on_prolog_fail, so Slurm holds every job that a prolog keeps off a node;"
            " we release the ones that we kept off, but the parameter should be set",
        )


def _programs(configuration: Configuration, _: PolicySection) -> Iterator[Advice]:
    needed = {
        "Prolog": "no node is checked before a job",
        "Epilog": "no node tells what it saw while a job was there",
        "EpilogSlurmctld": "no end of a job reaches this service",
    }
    for key, why in needed.items():
        value = _value(configuration, key)
        if not value:
            yield _danger(key, f"{key} is not set, so {why}")
        elif re.search(r"[,*?\[ ]", value):
            yield _hint(
                key,
                f"{key} names several programs ({value}): they run in reverse alphabetical order, the first that fails"
                " stops the rest, and one that hangs holds ours up; make sure that ours is among them",
            )
        elif "wheeltapper" not in value:
            yield _hint(key, f"{key} is {value}: make sure that it is ours, or calls ours")


def _health_check(configuration: Configuration, _: PolicySection) -> Iterator[Advice]:
    if not _value(configuration, "HealthCheckProgram"):
        yield _hint("HealthCheckProgram", "it is not set, so a broken node stays idle until a job is sent there")
    elif _seconds(configuration, "HealthCheckInterval") is None:
        yield _hint("HealthCheckInterval", "HealthCheckInterval is 0, so the health check never runs")
    elif "ANY" not in _value(configuration, "HealthCheckNodeState").upper():
        yield _hint("HealthCheckNodeState", "it lacks ANY, so nodes in some states are never checked")


def _timeouts(configuration: Configuration, _: PolicySection) -> Iterator[Advice]:
    message = _seconds(configuration, "MessageTimeout")
    if message is not None and message - 2.0 < HOOK_S:
        yield _danger(
            "MessageTimeout",
            f"MessageTimeout is {message:g} s, and slurmctld complains of a prolog two seconds before it; ours may take"
            f" {HOOK_S:g} s when all goes wrong, so set 10 or more",
        )
    limits = {key: _seconds(configuration, key) for key in ("PrologEpilogTimeout", "PrologTimeout", "EpilogTimeout")}
    for key, limit in limits.items():
        if limit is not None and limit < HOOK_S:
            yield _danger(
                key, f"{key} is {limit:g} s and would kill our hooks, which end by themselves in {HOOK_S:g} s"
            )
    if all(limit is None for limit in limits.values()):
        yield _hint(
            "PrologEpilogTimeout",
            "PrologEpilogTimeout is not set: ours end by themselves, but another program in the list may hang for ever",
        )


def _books(configuration: Configuration, _: PolicySection) -> Iterator[Advice]:
    if "slurmdbd" not in _value(configuration, "AccountingStorageType"):
        yield _hint(
            "AccountingStorageType",
            "there is no slurmdbd: the label of a job that is not requeued stands in `wheeltapper explain` alone",
        )
    elif "job_comment" not in _value(configuration, "AccountingStoreFlags").lower():
        yield _hint("AccountingStoreFlags", "AccountingStoreFlags lacks job_comment, so sacct shows no wheeltapper=off")


def _requeue(configuration: Configuration, policy: PolicySection) -> Iterator[Advice]:
    if _value(configuration, "JobRequeue") == "0":
        yield _hint("JobRequeue", "JobRequeue is 0, so only jobs submitted with --requeue can run again")
    for key in ("RequeueExit", "RequeueExitHold"):
        if _value(configuration, key):
            yield _hint(key, f"{key} is set: Slurm itself requeues by exit code, whatever the cause was")
    if "enable_expedited_requeue" in _value(configuration, "SlurmctldParameters").lower():
        yield _hint(
            "SlurmctldParameters", "enable_expedited_requeue is set: we leave such jobs to Slurm, and label them"
        )
    if policy.reboot and not _value(configuration, "RebootProgram"):
        yield _danger("RebootProgram", "policy.reboot is true and RebootProgram is not set, so no reboot will be done")


_RULES: tuple[Callable[[Configuration, PolicySection], Iterator[Advice]], ...] = (
    _prolog_flags,
    _hold,
    _programs,
    _health_check,
    _timeouts,
    _books,
    _requeue,
)
