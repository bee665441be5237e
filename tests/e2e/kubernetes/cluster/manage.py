"""``python -m tests.e2e.kubernetes.cluster.manage up|down`` keeps one cluster for a person to play with."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.e2e.kubernetes.cluster import cache
from tests.e2e.kubernetes.cluster.errors import ClusterError
from tests.e2e.kubernetes.cluster.sharing import attached, is_held, launch, read_state


def up(folder: Path) -> None:
    """Start a cluster in *folder*, unless one is up there already, and say how to use it."""
    if not is_held(folder):
        folder.mkdir(parents=True, exist_ok=True)
        print("Starting a Kubernetes cluster of one control plane and three workers, about a minute …", flush=True)
        began = time.monotonic()
        launch(folder, "--stay")
        print(f"It is up after {time.monotonic() - began:.0f} s.")
    cluster = attached(folder)
    print(f"export KUBECONFIG={cluster.kubeconfig} PATH={cluster.cache.bin}:$PATH")


def down(folder: Path) -> None:
    """End the cluster in *folder* and wait until it is gone."""
    os.kill(read_state(folder)["holder"], signal.SIGTERM)
    while is_held(folder):
        time.sleep(0.1)
    shutil.rmtree(folder)
    print("The cluster is gone.")


def main() -> int:
    folder = cache.find().programs.with_name("kubernetes-cluster")
    try:
        {"up": up, "down": down}[sys.argv[1]](folder)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
