"""The configuration: one TOML file, one model, and an error that names the key when something is wrong.

A file whose name ends in .json holds the same tree as JSON, which is how a chart renders its values faithfully.

Every default stands here with its unit and its reason. ``WHEELTAPPER_CONFIG`` names another file.
"""

from __future__ import annotations

import json
import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from wheeltapper import defaults
from wheeltapper.config_kubernetes import KubernetesSection
from wheeltapper.config_section import Seconds
from wheeltapper.config_section import Section as Section  # noqa: PLC0414 - checks look for it here
from wheeltapper.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same module under its older name
    import tomli as tomllib

DEFAULT_PATH = defaults.PATH

Folder = Annotated[Path, Field(strict=False)]


class Mode(str, Enum):
    """How far the policy may go. Each mode holds the ones before it."""

    OBSERVE = "observe"
    QUARANTINE = "quarantine"
    FULL = "full"


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


class ControllerSection(Section):
    """The service beside slurmctld, and where nodes find it."""

    address: str = Field(
        "127.0.0.1:6829",
        pattern=r"^[^\s:]+:\d{1,5}$",
        description="host:port that nodes report to and the service listens on.",
    )
    standby_address: str | None = Field(
        None,
        pattern=r"^[^\s:]+:\d{1,5}$",
        description="host:port of a second service, on the host of the backup slurmctld, that acts when the first is"
        " gone. Both share spool_dir and the ledger.",
    )
    listen: str | None = Field(
        None,
        pattern=r"^[^\s:]+:\d{1,5}$",
        description="host:port that this service listens on. Absent: address. For the second service: standby_address.",
    )
    auth: Literal["auto", "key", "munge"] = Field(
        "auto",
        description="How nodes prove who they are: by key files, by MUNGE, or (auto) by the key file where there is"
        " one, else by MUNGE. Nodes and service must agree.",
    )
    key_file: Path = Field(
        Path("/etc/wheeltapper/key"),
        strict=False,
        description="On the controller the master key, on a node that node's own key (`wheeltapper slurm key NODE`).",
    )
    user: str = Field(
        "slurm", description="The user as whom the service runs: with MUNGE, nobody else can read what nodes say."
    )
    munge_socket: Path | None = Field(
        None, strict=False, description="Where munged listens. Absent: MUNGE's own default, /run/munge/munge.socket.2."
    )
    spool_dir: Path = Field(
        Path("/var/spool/wheeltapper"), strict=False, description="Where EpilogSlurmctld leaves one file per ended job."
    )
    gather_deadline_s: Seconds = Field(
        60.0, strict=False, description="How long to wait for the nodes of an attempt: a dead node never answers."
    )

    @property
    def is_shared(self) -> bool:
        """True when services on two hosts share spool folder and ledger."""
        return self.standby_address is not None

    @property
    def takes_keys(self) -> bool:
        """True when nodes prove themselves by keys, and not by MUNGE; looks for the key file where that decides."""
        return self.auth == "key" or (self.auth == "auto" and self.key_file.exists())


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
    budget: BudgetSection = BudgetSection()
    release: ReleaseSection = ReleaseSection()
    reboot: bool = Field(
        False,
        description="Let Slurm reboot a node whose fault asks for it, once it is empty (slurm.conf: RebootProgram).",
    )
    probation_h: float = Field(
        2160.0,
        ge=0,
        strict=False,
        description="Hours for which large jobs avoid a node that has failed, the last that failed first, as far as"
        " there are others. Most relapses come within a day; the order makes a longer look back do no harm.",
    )
    probation_max_nodes: int = Field(
        4, ge=1, description="A job on more nodes is large: one relapse costs the work of all of them."
    )


class DiagnosisSection(Section):
    """How the cause is looked for."""

    window_s: Seconds = Field(
        defaults.WINDOW_S,
        strict=False,
        description="How far before the end node evidence may lie: the longest common collective timeout (30 minutes).",
    )
    catalogue_dirs: tuple[Folder, ...] = Field(
        defaults.CATALOGUE_DIRS, strict=False, description="Folders with a site's own signatures."
    )


class LedgerSection(Section):
    """The record."""

    path: Path = Field(
        Path("/var/lib/wheeltapper/ledger.db"), strict=False, description="The SQLite file; its folder is created."
    )
    dsn: str | None = Field(
        None,
        description="A PostgreSQL connection string to use instead of the file. Keep its password in ~/.pgpass.",
    )
    keep_days: int | None = Field(
        None, ge=30, description="Days after which a record is dropped. Absent: all is kept, for MTTF takes years."
    )
    checkpoint_s: int = Field(
        3600,
        gt=0,
        description="How often jobs write checkpoints: what ran since the last one counts as lost in reports.",
    )


class MetricsSection(Section):
    """Where Prometheus finds the metrics of agent, service and operator. Without a port nothing listens."""

    address: str = Field(
        "127.0.0.1", description="The address to listen on. Another one shows the metrics to everybody who reaches it."
    )
    agent_port: int | None = Field(None, ge=1, le=65_535, description="The agent's port, on every node.")
    controller_port: int | None = Field(None, ge=1, le=65_535, description="The controller service's port.")
    operator_port: int | None = Field(None, ge=1, le=65_535, description="The port of each operator, on Kubernetes.")


class SlurmSection(Section):
    """How slurmctld is reached."""

    conf: Path | None = Field(None, strict=False, description="slurm.conf, when it is not in Slurm's default place.")
    client: Literal["auto", "command", "pyslurm"] = Field(
        "auto",
        description="How slurmctld is spoken to: by Slurm's commands, or by pyslurm. auto: pyslurm where it can be"
        " imported and is of slurmctld's release, else the commands.",
    )
    command_timeout_s: Seconds = Field(
        10.0, strict=False, description="Deadline of one Slurm command: Slurm's own MessageTimeout."
    )


class Config(Section):
    """The whole file."""

    cluster: str = Field("cluster", description="The cluster's name in records.")
    node: NodeSection = NodeSection()
    agent: AgentSection = AgentSection()
    checks: ChecksSection = ChecksSection()
    contention: ContentionSection = ContentionSection()
    controller: ControllerSection = ControllerSection()
    policy: PolicySection = PolicySection()
    diagnosis: DiagnosisSection = DiagnosisSection()
    ledger: LedgerSection = LedgerSection()
    metrics: MetricsSection = MetricsSection()
    slurm: SlurmSection = SlurmSection()
    kubernetes: KubernetesSection = KubernetesSection()


def parse(text: str, name: str = "configuration") -> Config:
    """Return the configuration in the TOML *text*, or JSON where the file's *name* says so.

    Raises:
        ConfigError: the text is neither, or a key or value is wrong; each wrong key is named.
    """
    is_json = name.endswith(".json")
    try:
        values: Any = json.loads(text) if is_json else tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"{name} is not {'JSON' if is_json else 'TOML'}: {error}") from error
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{name}: {explain(error)}") from error


def explain(error: ValidationError, above: str = "") -> str:
    """Return what is wrong in *error*, each wrong key by its full name: *above* is the table in which it stands."""
    wrong = []
    for each in error.errors():
        key = ".".join(str(part) for part in (above, *each["loc"]) if part != "")
        wrong.append(f"{key or 'the file'}: {_explain(each)}")
    return "; ".join(wrong)


def _explain(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "there is no such key"
    return f"{error['msg'][0].lower()}{error['msg'][1:]} (it is {error['input']!r})"


def path(given: Path | None = None) -> Path:
    """Return the file to read: *given*, else ``WHEELTAPPER_CONFIG``, else the default place."""
    return given or Path(os.environ.get(defaults.VARIABLE) or DEFAULT_PATH)


def load(given: Path | None = None) -> Config:
    """Read the configuration; a default place without a file means all defaults.

    Raises:
        ConfigError: the file that was asked for is missing, unreadable or wrong.
    """
    where = path(given)
    try:
        text = where.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if given is None and defaults.VARIABLE not in os.environ:
            return Config()
        raise ConfigError(f"{where} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where} cannot be read: {error}") from error
    return parse(text, str(where))
