"""Where the configuration lies, and what applies to a diagnosis without one: known without loading the model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PATH: Final = Path("/etc/wheeltapper/wheeltapper.toml")
VARIABLE: Final = "WHEELTAPPER_CONFIG"
"""Names another file."""

WINDOW_S: Final = 1800.0
"""How far before the end node evidence may lie: the longest common collective timeout (30 minutes)."""

CATALOGUE_DIRS: Final = (Path("/etc/wheeltapper/catalogue.d"),)
"""Folders with a site's own signatures."""


def nothing_configured() -> bool:
    """True when no configuration was asked for and none lies in its place: every default applies."""
    return VARIABLE not in os.environ and not PATH.exists()
