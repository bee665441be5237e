"""What a node is, what its agent does, and what it checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from wheeltapper import defaults
from wheeltapper.config.section import Folder, Seconds, Section


class NodeSection(Section):
    """What a healthy node of this kind has; never asked of the tool that may be broken."""

    name: str | None = Field(None, description="This node's name in the scheduler; the short host name when absent.")
    expected_gpus: int | None = Field(
        None, ge=0, description="GPUs that PCI must show. Absent: the count is not checked."
    )
    gpus: tuple[str, ...] = Field(
        (),
        description="PCI addresses in the scheduler's index order, so that a job's GPU indices can be told apart.",
        strict=False,
    )
    services: tuple[str, ...] = Field(
        (),
        strict=False,
        description="What must run: systemd units by their full name (`munge.service`), or processes (`slurmd`).",
    )
    dns_names: tuple[str, ...] = Field(
        (), strict=False, description="Names that must resolve: a controller, a file server, a registry."
    )


class AgentSection(Section):
    """The resident process on a node."""

    run_dir: Path = Field(
        Path("/run/wheeltapper"), strict=False, description="Socket, verdict and job markers; gone after a reboot."
    )
    state_dir: Path = Field(
        Path("/var/lib/wheeltapper"), strict=False, description="The evidence ring and reports not yet delivered."
    )
    kmsg: Path = Field(Path("/dev/kmsg"), strict=False, description="The kernel log.")
    sysfs: Path = Field(Path("/sys"), strict=False, description="The root of sysfs.")
    procfs: Path = Field(Path("/proc"), strict=False, description="The root of procfs.")
    dev: Path = Field(Path("/dev"), strict=False, description="The root of the device files.")
    run: Path = Field(Path("/run"), strict=False, description="The root of what runs now: sockets and process ids.")
    root: Path = Field(Path("/"), strict=False, description="The root of everything else that checks look at.")
    verdict_valid_s: Seconds = Field(
        30.0,
        strict=False,
        description="How long a verdict may be used. Refreshed at a third of it: a dead agent is noticed within it.",
    )
    ring_rows: int = Field(
        100_000, ge=100, description="Findings kept on the node: about 50 MB at the longest excerpts."
    )
    ring_days: int = Field(14, ge=1, description="Days after which a finding is dropped: longer than most jobs.")
    scheduler: Literal["slurm", "kubernetes"] = Field(
        "slurm", description="Whom the node is spoken for to: the controller service, or the API server as a pod."
    )
    health_interval_s: Seconds = Field(
        120.0,
        strict=False,
        description="How often the node tells the controller service how it is, beside every change: 5,000 nodes make"
        " 40 messages a second of it.",
    )
    log_tail_mb: int = Field(
        64, ge=1, description="Megabytes read from the end of a job's log: the cause is near the end."
    )


class ProgramSection(Section):
    """A program that is run as a check: 0 is ok, 1 fail, 2 warn, 3 and all else unknown."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="The check's name.")
    command: tuple[str, ...] = Field(
        min_length=1, strict=False, description="The program and its arguments; no shell reads them."
    )
    about: str = Field("", description="What it looks at, in a sentence.")
    every_s: Seconds = Field(300.0, strict=False, description="Seconds from one run to the next.")
    deadline_s: Seconds = Field(60.0, strict=False, description="Seconds after which it is killed; that is unknown.")
    label: str = Field("unknown/unknown", description="The label of its findings.")
    disposition: str = Field(
        "none",
        pattern=r"^(none|restart_app|reset_gpu|reboot|inspect|replace)$",
        description="What a failure asks for. From reset_gpu on it takes the node out, and needs a hardware/ label.",
    )
    output_bytes: int = Field(65_536, ge=1, description="Bytes of its output that are kept; the end is shown.")


class ChecksSection(Section):
    """Which checks a node runs, and their thresholds."""

    off: tuple[str, ...] = Field((), strict=False, description="Names of checks that this node does not run.")
    limits: dict[str, dict[str, Any]] = Field(
        {}, description="A check's thresholds, by its name: [checks.limits.NAME]; `wheeltapper checks` says which."
    )
    dirs: tuple[Folder, ...] = Field(
        (Path("/etc/wheeltapper/checks.d"),), strict=False, description="Folders with a site's own checks."
    )
    programs: tuple[ProgramSection, ...] = Field(
        (), strict=False, description="Programs that are run as checks: NHC, dcgmi diag, a script of the site's own."
    )


class ContentionSection(Section):
    """From when on a job lacked something: what its cgroup and the machine counted while it ran."""

    sample_s: Seconds = Field(
        15.0,
        strict=False,
        description="Seconds between two samples of a running job, each a millisecond: five minutes, the shortest time "
        "that is judged apart, hold twenty of them.",
    )
    window_s: Seconds = Field(
        defaults.WINDOW_S,
        strict=False,
        description="Seconds before the last sample that are judged: what a collective may have waited for.",
    )
    throttled_share: float = Field(
        defaults.THROTTLED_SHARE,
        gt=0,
        le=1,
        strict=False,
        description="Share of the CPU limit's periods in which it stopped the job: kubernetes-mixin warns at 0.25, "
        "which bursts of an idle pod reach; sites raise it to 0.6 and more.",
    )
    periods_min: int = Field(
        defaults.PERIODS_MIN, ge=1, description="Periods that must have passed: a minute at the kernel's 0.1 s."
    )
    stopped_share: float = Field(
        defaults.STOPPED_MIN,
        gt=0,
        strict=False,
        description="Seconds stopped per second, summed over processors; less costs a job nothing.",
    )
    stalled_percent: float = Field(
        defaults.STALLED_PERCENT,
        gt=0,
        le=100,
        strict=False,
        description="Percent of the time in which no task of the job ran for want of a resource (pressure stall "
        "information, full): systemd-oomd kills from 60 percent on.",
    )
    misplaced_percent: float = Field(
        30.0,
        gt=0,
        le=100,
        strict=False,
        description="Percent of the machine's memory pages that were given out on another memory node than was wanted. "
        "Ours: reading across the socket has about half the bandwidth, so a third of it is felt.",
    )
    misplaced_pages_min: int = Field(
        1_000_000, ge=1, description="Pages given out elsewhere below which it is not counted: 4 GB of 4 kB pages."
    )
