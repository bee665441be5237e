"""Lays out what operator/Dockerfile builds from: ``python -m charts.image_context 3.13`` fills build/image.

There it finds itself, and wheels/: the wheel of this checkout and all that it needs, for the Python of the base image.
So the build itself needs no network, and what it installs is what stands there.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
CONTEXT = CHECKOUT / "build" / "image"


class ContextError(Exception):
    """The context could not be laid out; the message says what was tried, and its last words."""


def lay_out(python: str, context: Path = CONTEXT) -> Path:
    """Fill *context* for a base image with Python version *python* (``3.13``), and return it.

    Raises:
        ContextError: the wheel could not be built, or one that it needs could not be had.
    """
    shutil.rmtree(context, ignore_errors=True)
    wheels = context / "wheels"
    wheels.mkdir(parents=True)
    shutil.copy(CHECKOUT / "operator/Dockerfile", context)
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", str(wheels), str(CHECKOUT))
    (ours,) = wheels.glob("wheeltapper-*.whl")
    machine = platform.machine()
    _run(
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:",
        "--dest", str(wheels), f"--python-version={python}",
        f"--platform=manylinux2014_{machine}", f"--platform=manylinux_2_28_{machine}",
        f"wheeltapper[kubernetes] @ {ours.as_uri()}",
    )  # fmt: skip
    return context


def _run(*command: str) -> None:
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if ended.returncode != 0:
        raise ContextError(f"`{' '.join(command)}` failed:\n{ended.stdout}{ended.stderr}")


if __name__ == "__main__":
    print(lay_out(sys.argv[1]))  # noqa: T201 - its one answer
