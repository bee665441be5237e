"""How the cause is looked for, and what is kept and shown of it."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from wheeltapper import defaults
from wheeltapper.config.section import Folder, Seconds, Section


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
