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


THROTTLED_SHARE: Final = 0.6
"""Share of a CPU limit's periods in which it stopped a job. kubernetes-mixin warns at 0.25, which bursts of an idle pod
reach; sites raise it to 0.6 and more."""

PERIODS_MIN: Final = 600
"""Periods of a CPU limit (0.1 s each unless set) that must have passed: a minute of work."""

STOPPED_MIN: Final = 0.05
"""Seconds stopped per second, summed over processors, below which throttling cost a job nothing."""

STALLED_PERCENT: Final = 50.0
"""Percent of the time in which nothing ran for want of a resource; systemd-oomd kills from 60 percent of half a minute
on."""


def nothing_configured() -> bool:
    """True when no configuration was asked for and none lies in its place: every default applies."""
    return VARIABLE not in os.environ and not PATH.exists()
