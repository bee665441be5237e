"""The files in the run directory that hooks read without asking: the verdict, and what they need without an agent."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from wheeltapper import codec
from wheeltapper.config import Config
from wheeltapper.verdict import Verdict

SCONTROL_PLACES = ("/usr/bin", "/usr/local/bin", "/opt/slurm/bin", "/bin")


def replace(path: Path, text: str) -> None:
    """Write *text* to *path* so that a reader sees the old or the new content and nothing between.

    Raises:
        OSError: the disk is full or the folder is gone; the old content still stands.
    """
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def render_verdict(verdict: Verdict, uptime: float) -> str:
    """Return the verdict file: "STATE BOOT_ID EXPIRES" for the stub's ``read``, a sentence, and the record as JSON.

    EXPIRES is in whole seconds of /proc/uptime; *uptime* is that clock at ``verdict.checked_at``.
    """
    first = f"{verdict.state.value} {verdict.boot_id} {int(uptime + verdict.valid_for)}"
    return f"{first}\n{verdict}\n{codec.dumps(verdict)}\n"


def find_scontrol() -> str | None:
    """Return the path of scontrol; None when this machine has none."""
    places = [*os.environ.get("PATH", "").split(os.pathsep), *SCONTROL_PLACES]
    return shutil.which("scontrol", path=os.pathsep.join(place for place in places if place.startswith("/")))


def render_settings(config: Config, node: str, boot_id: str, settled: frozenset[int]) -> str:
    """Return the settings file: what a hook must know of the configuration when no agent answers.

    *settled* are kernel sequence numbers of this boot that a person has forgiven.
    """
    pairs = {
        "node": node,
        "mode": config.policy.mode.value,
        "scontrol": find_scontrol() or "",
        "slurm_conf": str(config.slurm.conf or os.environ.get("SLURM_CONF", "")),
        "kmsg": str(config.agent.kmsg),
        "boot_id": boot_id,
        "settled": ",".join(str(sequence) for sequence in sorted(settled)),
    }
    return "".join(f"{key}={value}\n" for key, value in pairs.items() if value)
