"""Public data of others, which is read from beside the checkout and never copied into it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("WHEELTAPPER_SHARED") or Path(__file__).parents[2] / "shared")


def shared(path: str) -> Path:
    """Return the file or folder at *path* in the shared data; skip the test where it is absent."""
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"{found} is not here; WHEELTAPPER_SHARED names another place")
    return found
