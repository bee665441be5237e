"""Renders the chart as the snapshots in tests/data/chart hold it: ``python -m charts.snapshots`` writes them anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHART = Path(__file__).with_name("wheeltapper")
FOLDER = Path(__file__).parents[1] / "tests/data/chart"

KUBERNETES = "1.30.0"
"""The oldest that the chart installs on."""

CASES: dict[str, tuple[str, ...]] = {
    "default": (),
    "full": ("--set=config.policy.mode=full", "--set=agent.host.kernelLog=/machine/kmsg", "--set-string=image.tag=1"),
    "preflight": ("--set=config.kubernetes.preflight.enabled=true",),
    "monitoring": (
        "--set=monitoring.enabled=true",
        "--set=monitoring.prometheusOperator.enabled=true",
        "--show-only=templates/monitoring.yaml",
        "--show-only=templates/configmap.yaml",
        "--show-only=templates/operator.yaml",
    ),
    "moving": (
        "--set=config.kubernetes.evict=true",
        "--set=config.kubernetes.dead_nodes=delete_pods",
        "--show-only=templates/rbac.yaml",
    ),
    "bare": ("--set=admissionPolicy.enabled=false", "--set=cleanUp.enabled=false", "--set=operator.replicas=1"),
}


def render(helm: str, *words: str) -> str:
    """Return what *helm* makes of the chart.

    Raises:
        ValueError: it refuses; the message says why.
    """
    command = [helm, "template", "wt", str(CHART), "--namespace=gpus", f"--kube-version={KUBERNETES}", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise ValueError(ended.stderr.strip())
    return ended.stdout


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for case, words in CASES.items():
        (FOLDER / f"{case}.yaml").write_text(render(sys.argv[1], *words), encoding="utf-8")
