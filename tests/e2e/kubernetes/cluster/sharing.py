"""One cluster for several processes: a holder owns it, and it lives as long as anyone wants it.

Whoever wants the cluster holds a pipe to the holder open; the kernel closes it however a process ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.e2e.kubernetes.cluster import cache
from tests.e2e.kubernetes.cluster.cluster import Cluster
from tests.e2e.kubernetes.cluster.docker import Docker
from tests.e2e.kubernetes.cluster.errors import ClusterError
from tests.e2e.kubernetes.cluster.node import Node

CHECKOUT = Path(__file__).parents[4]

STATE = "cluster.json"
"""What the holder writes down when its cluster is ready, in the folder that it was given."""

HELD = "held"
"""The file that the holder keeps locked."""

_LOG = "holder.log"


@contextmanager
def shared(folder: Path) -> Iterator[Cluster]:
    """The one cluster in *folder*, which the first of several processes starts; the last one waits for its end.

    Raises:
        ClusterError: it could not be started; the message holds the holder's last words.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Everyone who wants the cluster shares a lock on this file, so whoever gets it alone is the last one.
    with (folder / "wanters").open("w") as wanters:
        with _alone(folder):
            fcntl.flock(wanters, fcntl.LOCK_SH)
            wanted = _join(folder) if is_held(folder) else _start(folder)
        try:
            yield attached(folder)
        finally:
            os.close(wanted)
            with _alone(folder), suppress(BlockingIOError):
                fcntl.flock(wanters, fcntl.LOCK_EX | fcntl.LOCK_NB)
                while is_held(folder):
                    time.sleep(0.05)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def attached(folder: Path) -> Cluster:
    """The cluster that a holder keeps in *folder*.

    Raises:
        ClusterError: there is none, or the one that answers was not made here.
    """
    state = read_state(folder)
    place = Path(state["folder"])
    docker = Docker(Path(state["socket"]) if state["socket"] else None)
    nodes = [Node(name, place / "nodes" / name, docker) for name in state["nodes"]]
    cluster = Cluster(place, state["name"], cache=cache.find(), docker=docker, walls=state["walls"], nodes=nodes)
    cluster.check_mark()
    return cluster


def read_state(folder: Path) -> dict[str, Any]:
    """What the holder wrote down; raises ClusterError when no cluster is kept in *folder*."""
    if not is_held(folder) or not (folder / STATE).exists():
        raise ClusterError(f"no cluster is kept in {folder}")
    state: dict[str, Any] = json.loads((folder / STATE).read_text())
    return state


def is_held(folder: Path) -> bool:
    """True while a holder lives that has *folder*: it keeps a lock, which ends with it."""
    if not (folder / HELD).exists():
        return False
    with (folder / HELD).open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def launch(folder: Path, *options: str, stdin: int = subprocess.DEVNULL) -> None:
    """Start a holder that outlives this process, and wait until its cluster is ready.

    Raises:
        ClusterError: it ended instead; the message holds its last words.
    """
    (folder / STATE).unlink(missing_ok=True)
    with (folder / _LOG).open("wb") as log:
        holder = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.kubernetes.cluster.holder", str(folder), *options],
            cwd=CHECKOUT, stdin=stdin, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    while not (folder / STATE).exists():
        with suppress(subprocess.TimeoutExpired):
            holder.wait(0.1)
            last = "\n".join((folder / _LOG).read_text(errors="replace").splitlines()[-40:])
            raise ClusterError(f"no cluster could be started in {folder}:\n{last}")
    # Its end is the business of whoever wants the cluster last, which may not be this process.
    holder.returncode = 0


def _join(folder: Path) -> int:
    return os.open(folder / "wanted", os.O_WRONLY)


def _start(folder: Path) -> int:
    pipe = folder / "wanted"
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe, 0o600)
    # Opened for reading first, since opening it for writing waits for a reader; the holder's copy must wait for words.
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    wanted = _join(folder)
    os.set_blocking(reading, True)
    try:
        launch(folder, stdin=reading)
    except BaseException:
        os.close(wanted)
        raise
    finally:
        os.close(reading)
    return wanted
