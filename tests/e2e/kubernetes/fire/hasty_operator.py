"""``python -m tests.e2e.kubernetes.fire.hasty_operator CONSTANTS WORD…``: ``wheeltapper operator WORD…`` in a hurry.

CONSTANTS is JSON: which constant of which module is what. Waits of minutes become seconds, and nothing else changes.
"""

from __future__ import annotations

import importlib
import json
import sys

from wheeltapper_operator.command import app


def main() -> None:
    """Set the constants, and run the command."""
    for name, value in json.loads(sys.argv[1]).items():
        module, _, constant = name.rpartition(".")
        found = importlib.import_module(f"wheeltapper_operator.{module}")
        assert hasattr(found, constant), name
        setattr(found, constant, value)
    app(sys.argv[2:])


if __name__ == "__main__":
    main()
