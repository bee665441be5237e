"""The settings of a diagnosis; the model of the whole configuration is loaded only where a file is to be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wheeltapper import defaults


@dataclass(frozen=True, slots=True)
class DiagnosisSettings:
    """What ``wheeltapper diagnose`` takes from the configuration."""

    window_s: float = defaults.WINDOW_S
    catalogue_dirs: tuple[Path, ...] = defaults.CATALOGUE_DIRS


def diagnosis_settings(given: Path | None) -> DiagnosisSettings:
    """Return the settings in the configuration *given*, else in that of this machine.

    Raises:
        ConfigError: the file is missing, unreadable or wrong.
    """
    if given is None and defaults.nothing_configured():
        return DiagnosisSettings()
    from wheeltapper import config

    loaded = config.load(given).diagnosis
    return DiagnosisSettings(loaded.window_s, loaded.catalogue_dirs)
