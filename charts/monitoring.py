"""Copies the alert rules and the dashboard into the chart, which reads no others: ``python -m charts.monitoring``."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "monitoring"
TARGET = Path(__file__).with_name("wheeltapper") / "files"

NAMES = ("rules.yaml", "dashboard.json")

if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for name in NAMES:
        (TARGET / name).write_bytes((SOURCE / name).read_bytes())
