"""What is done about a diagnosis, and how far it may go."""

from __future__ import annotations

from enum import Enum

from pydantic import Field

from wheeltapper.config.section import Seconds, Section


class Mode(str, Enum):
    """How far the policy may go. Each mode holds the ones before it."""

    OBSERVE = "observe"
    QUARANTINE = "quarantine"
    FULL = "full"


class BudgetSection(Section):
    """How many nodes may be out at once, per partition and failure domain. It blocks new ones and never releases."""

    max_nodes: int | None = Field(None, ge=1, description="Absolute limit. Absent: the percentage alone counts.")
    max_percent: float = Field(
        10.0, gt=0, le=100, strict=False, description="Share of a partition's nodes; one node is always allowed."
    )
    domain_max_percent: float = Field(
        25.0,
        gt=0,
        le=100,
        strict=False,
        description="Share of a failure domain's nodes; one is always allowed. More at once are the rack's fault.",
    )
    domains: dict[str, str] = Field(
        {},
        description='Failure domains by name, each a node list such as "gpu[001-016]". Absent: Slurm\'s own leaf'
        " switches or blocks, where it has a topology.",
    )


class ReleaseSection(Section):
    """When a node that we took out goes back to work. What people took out is never released."""

    automatic: bool = Field(True, description="false: every node that was taken out waits for a person.")
    hold_s: Seconds = Field(
        600.0,
        strict=False,
        description="How long the node must have passed its checks: two rounds of a health check every five minutes.",
    )
    repeat_quarantines: int = Field(
        3, ge=1, description="A node that is taken out for this many times within repeat_days waits for a person."
    )
    repeat_days: float = Field(30.0, gt=0, strict=False, description="See repeat_quarantines.")


class PolicySection(Section):
    """What is done about a diagnosis."""

    mode: Mode = Field(
        Mode.OBSERVE,
        strict=False,
        description="observe: record what would be done; quarantine: drain too; full: requeue too.",
    )
    annotate: bool = Field(True, description="Write the label into the job's AdminComment, in every mode.")
    requeue_by_default: bool = Field(
        True,
        description="false: only jobs submitted with `--comment wheeltapper=on` run again. Any job may say"
        " `wheeltapper=off`.",
    )
    retry_budget: int = Field(
        3,
        ge=0,
        description="Requeues that a user's transient failures may cost one job; three fill an evening, not a week.",
    )
    infrastructure_retry_budget: int = Field(
        10, ge=0, description="Requeues of one job for faults of our machines: a limit only so that loops end."
    )
    infrastructure_retry_h: float = Field(
        24.0,
        gt=0,
        strict=False,
        description="Hours back in which such requeues count: a loop is quick, and a job of months meets many faults.",
    )
    unknown_retries: int = Field(1, ge=0, description="Requeues of an attempt that nothing explains.")
    backoff_s: Seconds = Field(
        60.0, strict=False, description="Delay before a transient failure is tried again; doubles each time."
    )
    backoff_max_s: Seconds = Field(3600.0, strict=False, description="The longest delay.")
    move_after_s: float = Field(
        60.0,
        ge=0,
        strict=False,
        description="Slurm, mode full: a job that still runs so long after its node proved to be broken under it is"
        " ended and runs elsewhere. Twice Slurm's own KillWait: what ends by itself has ended by then. 0: never.",
    )
    budget: BudgetSection = BudgetSection()
    release: ReleaseSection = ReleaseSection()
    reboot: bool = Field(
        False,
        description="Let Slurm reboot a node whose fault asks for it, once it is empty (slurm.conf: RebootProgram).",
    )
    probation_max_nodes: int = Field(
        4,
        ge=1,
        description="A job on more nodes is large: one relapse costs the work of all of them, so it avoids the nodes"
        " that have failed, the last that failed first, as far as there are others.",
    )
