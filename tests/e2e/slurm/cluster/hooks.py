"""Which programs Slurm calls, and where the checkout keeps ours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.e2e.slurm.cluster.release import CHECKOUT


@dataclass(frozen=True, slots=True)
class Hooks:
    """The programs slurm.conf names; the checkout's own by default, None leaves one out."""

    prolog: Path | None = CHECKOUT / "hooks" / "prolog"
    epilog: Path | None = CHECKOUT / "hooks" / "epilog"
    healthcheck: Path | None = CHECKOUT / "hooks" / "healthcheck"
    epilogslurmctld: Path | None = CHECKOUT / "slurm" / "epilogslurmctld"

    @classmethod
    def none(cls) -> Hooks:
        """No hook at all."""
        return cls(None, None, None, None)

    def lines(self, healthcheck_interval: int) -> dict[str, str]:
        """The lines of slurm.conf; *healthcheck_interval* is in seconds."""
        named = {
            "Prolog": self.prolog,
            "Epilog": self.epilog,
            "HealthCheckProgram": self.healthcheck,
            "EpilogSlurmctld": self.epilogslurmctld,
        }
        lines = {key: str(path) for key, path in named.items() if path is not None}
        if self.healthcheck is not None:
            lines |= {"HealthCheckInterval": str(healthcheck_interval), "HealthCheckNodeState": "ANY"}
        return lines
