"""The service beside slurmctld, and how it speaks to nodes and to Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from wheeltapper.config.section import Seconds, Section


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
