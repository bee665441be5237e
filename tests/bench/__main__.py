"""``python -m tests.bench [GROUP…] [--runs N] [--out FILE]``."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from pathlib import Path

HERE = Path(__file__).parent
GROUPS = sorted(path.stem.removeprefix("figures_") for path in HERE.glob("figures_*.py"))


def main() -> None:
    """Measure the groups, print each figure and write all of them, one JSON object a line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Measure, and write one JSON object a line."
    )
    parser.add_argument(
        "groups", nargs="*", choices=[*GROUPS, []], help=f"which groups, of: {', '.join(GROUPS)}; else all"
    )
    parser.add_argument("--runs", type=int, default=200, help="runs of each candidate")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "build" / "bench.jsonl")
    asked = parser.parse_args()
    # As at Ctrl-C: what was started is ended, and temporary folders go.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    measured = []
    for group in asked.groups or GROUPS:
        for figure in importlib.import_module(f"tests.bench.figures_{group}").figures(asked.runs):
            print(figure, flush=True)
            measured.append(figure.json())
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text("\n".join(measured) + "\n", encoding="utf-8")
    print(f"{len(measured)} figures are in {asked.out}.")


if __name__ == "__main__":
    main()
