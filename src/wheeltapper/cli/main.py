"""Where ``wheeltapper`` starts."""

from __future__ import annotations

import sys

from wheeltapper.cli import diagnose


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] == ["diagnose"]:
        sys.exit(diagnose.main(sys.argv[2:]))
    from wheeltapper.cli.app import app

    app(prog_name="wheeltapper")


if __name__ == "__main__":
    main()
