"""``python -m tests.e2e.slurm.releases [RELEASE…]`` runs the tests of this folder against several releases of Slurm.

What is missing is made first: the machine's own Slurm serves its own release, folders all others. All of them, unless
some are named. ``--make-only`` makes the folders and runs nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.slurm.cluster import release_folder
from tests.e2e.slurm.cluster.errors import Unavailable
from tests.e2e.slurm.cluster.release import CHECKOUT, CHOICE, OWN, Release, named, own_version

HERE = Path(__file__).parent
RESULTS = CHECKOUT / "build" / "releases"

USUAL_S = 480.0
"""Seconds of one run, and of making one folder, on two cores; what is said before there is a run to go by."""
MAKING_S = 75.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of the tests came to."""

    passed: int
    failed: int
    skipped: int
    seconds: float

    @classmethod
    def read(cls, report: Path) -> Outcome | None:
        """From pytest's JUnit report; None when there is none."""
        if not report.exists():
            return None
        (suite,) = ET.parse(report).getroot()
        tests, failures, errors, skipped = (
            int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")
        )
        failed = failures + errors
        return cls(tests - failed - skipped, failed, skipped, float(suite.get("time", 0)))

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped} in {duration(self.seconds)}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _report(release: Release) -> Path:
    return RESULTS / f"{release.name}.xml"


def _wanted(names: list[str]) -> list[Release]:
    """The releases by their *names*, all when there are none; that of this machine is its own."""
    own = ".".join(own_version().split(".")[:2])
    names = names or [OWN, *(name for name in release_folder.SUITES if name != own)]
    return [named(OWN if name == own else name) for name in names]


def _announce(releases: list[Release]) -> None:
    told = [
        f"{release.full_version}, the machine's own" if release.root is None else release.name for release in releases
    ]
    made = [release for release in releases if not release.ready]
    last = [Outcome.read(_report(release)) for release in releases]
    expected = sum(outcome.seconds if outcome else USUAL_S for outcome in last) + MAKING_S * len(made)
    first = f", and {', '.join(release.name for release in made)} must be made first" if made else ""
    print(f"Slurm {'; '.join(told)}. This takes about {duration(expected)}{first}.", flush=True)


def _make(releases: list[Release]) -> None:
    for release in releases:
        if release.ready:
            continue
        began = time.monotonic()
        print(f"\nMaking the folder of Slurm {release.name}: {release.root} …", flush=True)
        release_folder.make(release)
        print(f"It took {duration(time.monotonic() - began)}.", flush=True)


def _test(release: Release) -> Outcome | None:
    """Run the tests against *release*; None when pytest itself failed."""
    print(f"\nThe tests against Slurm {release.full_version} …", flush=True)
    report = _report(release)
    report.unlink(missing_ok=True)
    words = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-q", f"--junitxml={report}", str(HERE)]
    environment = {**os.environ, CHOICE: release.name, "WHEELTAPPER_REQUIRE_SLURM": "1"}
    subprocess.run(words, cwd=CHECKOUT, env=environment, check=False)
    return Outcome.read(report)


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.e2e.slurm.releases")
    arguments.add_argument("releases", nargs="*", metavar="RELEASE", help="such as 24.11; all when none is named")
    arguments.add_argument("--make-only", action="store_true", help="make the folders and run no test")
    asked = arguments.parse_args()
    began = time.monotonic()
    try:
        releases = _wanted(asked.releases)
        _announce(releases)
        _make(releases)
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 1
    if asked.make_only:
        return 0
    outcomes = {release.full_version: _test(release) for release in releases}
    print(f"\nThe same tests against {len(releases)} releases of Slurm, in {duration(time.monotonic() - began)}:")
    for version, outcome in outcomes.items():
        print(f"  {version:8} {outcome or 'pytest failed before it could run them'}")
    return 0 if all(outcome and outcome.passed and not outcome.failed for outcome in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
