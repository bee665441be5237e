"""The files that a cluster's programs read: slurm.conf, gres.conf, and Wheeltapper's TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.slurm.cluster.release import Release
from wheeltapper import config

QUICK_SCHEDULING = "bf_interval=1,sched_interval=1,batch_sched_delay=0"
"""Seconds: schedule at once rather than every half minute."""

FAKE_GPUS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
"""Character devices every machine has; gres.conf wants one for each GPU."""

CREDENTIAL_S = 15
"""Slurm holds a requeued job back for the life of a credential and one second more: 121 s unless this shortens it.
It must outlast a prolog that is slow on purpose."""

WITHOUT_CGROUPS = (25, 11)
"""From this release on Slurm runs without cgroups by a line of cgroup.conf; before, by a task plugin that does nothing."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a cluster keeps things, and on which ports it listens. Paths are the same inside and outside."""

    folder: Path
    nodes: tuple[str, ...]
    port: int
    release: Release

    @property
    def slurm_conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        return self.folder / "munge" / "socket"

    @property
    def logs(self) -> Path:
        return self.folder / "log"

    @property
    def work(self) -> Path:
        """Where jobs run and write; open to every user."""
        return self.folder / "work"

    @property
    def service_port(self) -> int:
        """Where the controller service listens."""
        return self.port + 1

    @property
    def standby_port(self) -> int:
        """Where the second controller service listens, when it acts."""
        return self.port + 61

    @property
    def slurmd_ports(self) -> tuple[int, ...]:
        return tuple(self.port + 2 + index for index in range(len(self.nodes)))


def slurm_conf(
    layout: Layout, gpus: int, cpus: int, hooks: Mapping[str, str], changes: Mapping[str, str | None]
) -> str:
    """The text of slurm.conf; *changes* are a test's own lines, None takes a line out."""
    folder = layout.folder
    lines: dict[str, str | None] = {
        "ClusterName": "lab",
        "SlurmctldHost": "localhost(127.0.0.1)",
        "SlurmctldPort": str(layout.port),
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket},cred_expire={CREDENTIAL_S}",
        "StateSaveLocation": f"{folder}/state",
        "SlurmdSpoolDir": f"{folder}/%n/spool",
        "SlurmctldPidFile": f"{folder}/slurmctld.pid",
        "SlurmdPidFile": f"{folder}/%n/slurmd.pid",
        "SlurmctldLogFile": f"{layout.logs}/slurmctld.log",
        "SlurmdLogFile": f"{layout.logs}/%n.slurmd.log",
        "SlurmctldSyslogDebug": "quiet",
        "SlurmdSyslogDebug": "quiet",
        "SlurmctldDebug": "verbose",
        "SlurmdDebug": "verbose",
        "ProctrackType": "proctrack/linuxproc",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",  # not memory too: jobs that ask for none would get a whole node's
        "SlurmdParameters": "config_overrides",
        "ReturnToService": "2",
        "PrologFlags": "Alloc",
        "SchedulerParameters": f"{QUICK_SCHEDULING},nohold_on_prolog_fail",
        "KillWait": "2",
        **hooks,
    }
    if layout.release.version < WITHOUT_CGROUPS:
        lines["TaskPlugin"] = "task/none"
    if gpus:
        lines["GresTypes"] = "gpu"
    lines |= changes
    text = "".join(f"{key}={value}\n" for key, value in lines.items() if value is not None)
    gres = f" Gres=gpu:{gpus}" if gpus else ""
    machines = "".join(
        f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={cpus}{gres}\n"
        for name, port in zip(layout.nodes, layout.slurmd_ports, strict=True)
    )
    return f"{text}{machines}PartitionName=main Nodes=ALL Default=YES\n"


def gres_conf(gpus: int) -> str:
    """The text of gres.conf for nodes with *gpus* fake GPUs each."""
    return f"AutoDetect=off\nName=gpu File={','.join(FAKE_GPUS[:gpus])}\n" if gpus else "AutoDetect=off\n"


def write_slurm(layout: Layout, conf: str, gpus: int) -> None:
    """Write Slurm's own files into the cluster's folder."""
    layout.slurm_conf.write_text(conf)
    (layout.folder / "gres.conf").write_text(gres_conf(gpus))
    if layout.release.version >= WITHOUT_CGROUPS:
        (layout.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")


def wheeltapper_toml(own: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    """The TOML of one machine: what is its *own*, then a test's *changes*.

    Raises:
        wheeltapper.errors.ConfigError: a changed key or value is wrong.
    """
    text = toml(_merged(own, changes))
    config.parse(text, "the test's configuration")
    return text


def toml(values: Mapping[str, Any], table: str = "") -> str:
    """*values* as TOML; its strings, numbers, booleans and lists are written as in JSON."""
    plain = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
    tables = {f"{table}.{key}" if table else key: value for key, value in values.items() if key not in plain}
    head = f"[{table}]\n" if table and plain else ""
    lines = "".join(f"{key} = {json.dumps(value, default=str, ensure_ascii=False)}\n" for key, value in plain.items())
    return head + lines + "".join(toml(value, name) for name, value in tables.items())


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        tables = isinstance(value, Mapping) and isinstance(under, Mapping)
        result[key] = _merged(dict(under or {}), value) if tables else value
    return result
