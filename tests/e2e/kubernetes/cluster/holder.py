"""A process that owns a cluster for others: it starts one, says so in a file, and ends it when it is no longer wanted.

``python -m tests.e2e.kubernetes.cluster.holder FOLDER`` is that process, and its standard input the pipe that whoever wants
the cluster holds open; with the last one the cluster goes. With ``--stay`` it waits to be told by SIGTERM instead.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import logging
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType

from tests.e2e.kubernetes.cluster.errors import ClusterError
from tests.e2e.kubernetes.cluster.owner import started
from tests.e2e.kubernetes.cluster.sharing import HELD, STATE


def _hold(folder: Path, *, stay: bool) -> None:
    place = folder / f"cluster-{os.getpid()}"
    for former in folder.glob("cluster-*"):
        shutil.rmtree(former, ignore_errors=True)
    with started(place) as cluster:
        held = {
            "holder": os.getpid(),
            "folder": str(place),
            "name": cluster.name,
            "walls": cluster.walls,
            "socket": str(cluster.docker.socket or ""),
            "nodes": list(cluster.nodes),
        }
        new = folder / ".new"
        new.write_text(json.dumps(held))
        new.rename(folder / STATE)
        while stay:
            signal.pause()
        while os.read(sys.stdin.fileno(), 1):
            pass


def _told(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Start a Kubernetes cluster and keep it.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stay", action="store_true", help="until SIGTERM, not until standard input ends")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    signal.signal(signal.SIGTERM, _told)
    with (options.folder / HELD).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            _hold(options.folder, stay=options.stay)
        except ClusterError as error:
            sys.exit(str(error))
        finally:
            (options.folder / STATE).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
