"""Reads the file, and names the key when something is wrong."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wheeltapper import defaults
from wheeltapper.config.tree import Config
from wheeltapper.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same module under its older name
    import tomli as tomllib


GONE = {
    "policy.probation_h": "large jobs avoid the nodes that have failed, the last that failed first, however long ago",
}
"""Keys that there were once, and what holds in their place."""


def parse(text: str, name: str = "configuration") -> Config:
    """Return the configuration in the TOML *text*, or JSON where the file's *name* says so.

    Raises:
        ConfigError: the text is neither, or a key or value is wrong; each wrong key is named.
    """
    is_json = name.endswith(".json")
    try:
        values: Any = json.loads(text) if is_json else tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"{name} is not {'JSON' if is_json else 'TOML'}: {error}") from error
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{name}: {explain(error)}") from error


def explain(error: ValidationError, above: str = "") -> str:
    """Return what is wrong in *error*, each wrong key by its full name: *above* is the table in which it stands."""
    wrong = []
    for each in error.errors():
        key = ".".join(str(part) for part in (above, *each["loc"]) if part != "")
        wrong.append(f"{key or 'the file'}: {_explain(each, key)}")
    return "; ".join(wrong)


def _explain(error: Any, key: str) -> str:
    if error["type"] == "extra_forbidden":
        return f"delete it, there is no such key any more: {GONE[key]}" if key in GONE else "there is no such key"
    return f"{error['msg'][0].lower()}{error['msg'][1:]} (it is {error['input']!r})"


def path(given: Path | None = None) -> Path:
    """Return the file to read: *given*, else ``WHEELTAPPER_CONFIG``, else the default place."""
    return given or Path(os.environ.get(defaults.VARIABLE) or defaults.PATH)


def load(given: Path | None = None) -> Config:
    """Read the configuration; a default place without a file means all defaults.

    Raises:
        ConfigError: the file that was asked for is missing, unreadable or wrong.
    """
    where = path(given)
    try:
        text = where.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if given is None and defaults.VARIABLE not in os.environ:
            return Config()
        raise ConfigError(f"{where} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where} cannot be read: {error}") from error
    return parse(text, str(where))
