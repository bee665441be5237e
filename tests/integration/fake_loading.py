"""How a child process comes to find our NVML. Imports nothing that is not needed: some processes are kept small."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

VARIABLE = "FAKE_NVML_SCENARIO"


def load(built: Path, scenario: Path) -> None:
    """Make ``pynvml`` in this process, a child of the test, find the library *built* and its *scenario*."""
    os.environ[VARIABLE] = str(scenario)
    # The loader knows a library that is in memory by its own name, and looks for no other.
    ctypes.CDLL(str(built), mode=ctypes.RTLD_GLOBAL)
