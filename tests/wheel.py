"""Builds the wheel, installs it into an environment of its own and uses it there, with the sources out of reach.

``python -m tests.wheel``: every room must come from the installed wheel, the command must work, and what Slurm calls
by path must lie where the documentation says and be executable.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("wheeltapper", "wheeltapper_hooks", "wheeltapper_slurm", "wheeltapper_operator")
SCRIPTS = ("hooks/prolog", "hooks/epilog", "hooks/healthcheck", "slurm/epilogslurmctld")
DATA = ("hooks/wheeltapper_hooks/client.py", "slurm/conf", "monitoring/rules.yaml", "monitoring/dashboard.json")

PROBE = f"""
import importlib, pathlib, sys
for room in {ROOMS!r}:
    where = pathlib.Path(importlib.import_module(room).__file__)
    assert where.is_relative_to(sys.prefix), f"{{room}} came from {{where}}"
from wheeltapper import catalogue
from wheeltapper.evidence import Source
assert catalogue.load().match("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", Source.KERNEL)
"""


def run(*words: str | Path, cwd: Path) -> str:
    """Run a command outside the checkout; a failure ends the program with what it printed."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Try the wheel and say what was tried."""
    with tempfile.TemporaryDirectory(prefix="wheeltapper-wheel-") as name:
        away = Path(name)
        run(sys.executable, "-m", "build", "--outdir", away, ROOT, cwd=away)
        (wheel,) = away.glob("*.whl")
        venv.create(away / "venv", with_pip=True)
        prefix = away / "venv"
        run(prefix / "bin/pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=away)
        run(prefix / "bin/python", "-c", PROBE, cwd=away)
        version = run(prefix / "bin/wheeltapper", "--version", cwd=away).strip()
        for command in (
            ["agent"],
            ["slurm"],
            ["diagnose"],
            ["explain"],
            ["report"],
            ["ledger"],
            ["simulate"],
            ["config", "show"],
        ):
            run(prefix / "bin/wheeltapper", *command, *([] if "show" in command else ["--help"]), cwd=away)
        share = prefix / "share/wheeltapper"
        for script in SCRIPTS:
            assert (share / script).stat().st_mode & 0o111, f"{script} may not be run"
            run("sh", "-n", share / script, cwd=away)
        for data in DATA:
            assert (share / data).exists(), f"{data} is missing"
        print(f"{wheel.name}: {version} works with the sources out of reach, {len(SCRIPTS)} hooks in place")


if __name__ == "__main__":
    main()
