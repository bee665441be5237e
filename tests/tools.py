"""``python -m tests.tools`` installs Debian's programs that some tests use; what is missing makes those tests skip.

PostgreSQL and Prometheus start servers of their own where they are installed. So they are installed only on a machine
that keeps daemons off (a container's ``policy-rc.d``); elsewhere it is said what to type.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PACKAGES = {
    "postgresql": "/usr/lib/postgresql/*/bin/initdb",
    "prometheus": "/usr/bin/promtool",
    "chromium": "/usr/bin/chromium",
}
"""Debian's package for each program."""

KEEPS_DAEMONS_OFF = Path("/usr/sbin/policy-rc.d")


def missing() -> list[str]:
    """Return the packages that are not here."""
    return [package for package, program in PACKAGES.items() if not any(Path("/").glob(program[1:]))]


def main() -> None:
    """Install them, or say what to type. A machine without them still passes its tests."""
    packages = missing()
    if not packages:
        return
    words = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or not shutil.which("apt-get") or not KEEPS_DAEMONS_OFF.exists():
        print(f"Some tests will skip. To run them, too, type: sudo {' '.join(words)}")
        return
    print(f"Installing {', '.join(packages)} …", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "--quiet"], words):
        ended = subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL).returncode
        if ended:
            print(f"`{' '.join(command)}` failed with {ended}; some tests will skip")
            return


if __name__ == "__main__":
    main()
