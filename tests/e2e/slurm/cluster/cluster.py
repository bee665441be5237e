"""The cluster: all its daemons, started in order, watched, and ended together."""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Self

from tests.e2e.slurm.cluster import release as releases
from tests.e2e.slurm.cluster import settings
from tests.e2e.slurm.cluster.accounting import Accounting
from tests.e2e.slurm.cluster.commands import WHEELTAPPER, Commands
from tests.e2e.slurm.cluster.daemon import Daemon, listens
from tests.e2e.slurm.cluster.files import PCI_ADDRESSES, ControllerFiles, NodeFiles, write_secret
from tests.e2e.slurm.cluster.hooks import Hooks
from tests.e2e.slurm.cluster.namespaces import ENVIRONMENT, EVERYWHERE, Namespaces, Place
from tests.e2e.slurm.cluster.node import Node
from tests.e2e.slurm.cluster.release import Release
from tests.e2e.slurm.cluster.requirements import require
from wheeltapper.checks.registry import shipped
from wheeltapper.wire import node_key

START_S = 30.0
"""Seconds until a daemon must be ready; a start takes one or two on a machine that is not overloaded."""

CONFIG_PATH = "/etc/wheeltapper/wheeltapper.toml"
STANDBY_PATH = "/etc/wheeltapper/standby.toml"

_log = logging.getLogger(__name__)
_clusters = itertools.count()


def _own_port() -> int:
    """The first of 64 ports below the ephemeral range; each cluster of a process has others, and mostly of all processes.

    Each listens in its own network, so this only lets a reader of logs tell clusters apart.
    """
    return 20_000 + (os.getpid() * 7 + next(_clusters)) % 180 * 64


class Cluster(Commands):
    """A private Slurm cluster in *folder*, which must be new or empty; use it as a context manager.

    ``agents`` and ``controller`` say whether Wheeltapper's own programs run, ``standby`` whether nodes know of a second
    service, which the test starts itself. ``config`` changes Wheeltapper's TOML on
    every machine (``{"policy": {"mode": "full"}}``), ``accounting`` brings slurmdbd with a database, ``conf`` lines of
    slurm.conf (None takes a line out), ``binds`` mounts files over others on every node, and ``release`` chooses the
    Slurm; None is what the environment names. For jobs of ordinary users every folder above *folder* must be open to
    them.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int = 4,
        *,
        gpus: int = 2,
        cpus: int = 2,
        hooks: Hooks | None = None,
        healthcheck_interval: int = 5,
        agents: bool = True,
        controller: bool = True,
        standby: bool = False,
        accounting: bool = False,
        config: Mapping[str, Any] | None = None,
        conf: Mapping[str, str | None] | None = None,
        binds: Sequence[tuple[Path, Path]] = (),
        release: Release | None = None,
    ) -> None:
        if gpus > len(PCI_ADDRESSES):
            raise ValueError(f"a node has at most {len(PCI_ADDRESSES)} GPUs here, not {gpus}")
        names = tuple(f"node{number}" for number in range(1, nodes + 1))
        self.folder = folder.absolute()
        self.release = releases.chosen() if release is None else release
        self.layout = settings.Layout(self.folder, names, _own_port(), self.release)
        self.work = self.layout.work
        self.controller_files = ControllerFiles(self.folder / "controller")
        self._gpus, self._cpus = gpus, cpus
        self._hooks = (Hooks() if hooks is None else hooks).lines(healthcheck_interval)
        self._agents, self._controller, self._standby = agents, controller, standby
        self._accounting = Accounting(self.layout) if accounting else None
        self._config = dict(config or {})
        self._conf = dict(conf or {})
        self._binds = tuple(binds)
        self._namespaces = Namespaces(
            self.folder / "ns", self.layout.logs / "namespaces.log", self.release.root, releases.lent(self.folder)
        )
        self._make_daemons()
        self.nodes = {
            name: self._make_node(name, port) for name, port in zip(names, self.layout.slurmd_ports, strict=True)
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # What it is made of

    def _make_daemons(self) -> None:
        layout = self.layout
        munge = layout.munge_socket.parent
        munged = (
            "munged", "--foreground", "--num-threads=2", f"--socket={layout.munge_socket}", f"--key-file={munge}/key",
            f"--pid-file={munge}/pid", f"--seed-file={munge}/seed", f"--log-file={munge}/log",
        )  # fmt: skip
        self.munged = self._daemon("munged", munged, EVERYWHERE, lambda _: layout.munge_socket.exists())
        slurmctld = ("slurmctld", "-D", "-f", str(layout.slurm_conf))
        books = Accounting(layout)
        self.mariadbd = self._daemon("mariadbd", books.mariadbd, EVERYWHERE, lambda _: books.socket.exists())
        self.slurmdbd = self._daemon(
            "slurmdbd", books.slurmdbd, EVERYWHERE, lambda daemon: listens(daemon, books.port), own_log=True
        )
        self.slurmctld = self._daemon(
            "slurmctld",
            slurmctld,
            self.controller_place,
            lambda daemon: listens(daemon, layout.port),
            own_log=True,
        )
        self.controller = self._daemon(
            "controller",
            (*WHEELTAPPER, "slurm", "controller", "--config", CONFIG_PATH),
            self.controller_place,
            lambda daemon: listens(daemon, layout.service_port),
        )
        self.standby = self._daemon(
            "standby",
            (*WHEELTAPPER, "slurm", "controller", "--config", STANDBY_PATH),
            self.controller_place,
            lambda daemon: listens(daemon, layout.standby_port),
        )

    def _make_node(self, name: str, port: int) -> Node:
        files = NodeFiles(self.folder / name)
        place = Place((*files.place.binds, *self._binds))
        slurmd = ("slurmd", "-D", "-N", name, "-f", str(self.layout.slurm_conf))
        agent = (*WHEELTAPPER, "agent", "run", "--config", CONFIG_PATH)

        def run(
            *argv: str, user: str | None = None, check: bool = True, timeout: float = 30.0
        ) -> subprocess.CompletedProcess[str]:
            return self.run(*argv, user=user, check=check, timeout=timeout, place=place)

        return Node(
            name,
            files,
            self._daemon(f"{name}.slurmd", slurmd, place, lambda daemon: listens(daemon, port), own_log=True),
            self._daemon(f"{name}.agent", agent, place, lambda _: (files.run / "verdict").exists()),
            run=run,
            wait=self.wait,
        )

    def _daemon(
        self, name: str, argv: tuple[str, ...], place: Place, ready: Callable[[Daemon], bool], *, own_log: bool = False
    ) -> Daemon:
        log = self.layout.logs / f"{name}.log"
        return Daemon(
            name, argv, self._namespaces, log,
            ready=ready, place=place, environment=self.environment, own_log=own_log,
        )  # fmt: skip

    @property
    def daemons(self) -> Iterator[Daemon]:
        """All of them, running or not."""
        yield from (self.munged, self.mariadbd, self.slurmdbd, self.slurmctld, self.controller, self.standby)
        for node in self.nodes.values():
            yield from (node.slurmd, node.agent)

    def node(self, name: str) -> Node:
        return self.nodes[name]

    # Start and end

    def start(self) -> None:
        """Start everything and wait until all nodes are idle and Wheeltapper's programs answer.

        Raises:
            Unavailable: no cluster can be made here.
            ClusterError: a daemon did not start; the message holds its log.
        """
        require(accounting=self._accounting is not None, release=self.release)
        began = time.monotonic()
        try:
            self._write_files()
            self._namespaces.start()
            self._start([self.munged])
            if self._accounting:
                self.run(*self._accounting.install, timeout=START_S * 2)
            for daemon in (self.mariadbd, self.slurmdbd) if self._accounting else ():
                self._start([daemon])
            self._start([self.slurmctld])
            ours = [node.agent for node in self.nodes.values()] if self._agents else []
            self._start([self.controller] if self._controller else [])
            self._start([*(node.slurmd for node in self.nodes.values()), *ours])
            self.wait(self._all_idle, START_S, "all nodes to be idle")
        except BaseException:
            self.stop()
            raise
        _log.info("The cluster in %s is up after %.1f s.", self.folder, time.monotonic() - began)

    def _start(self, daemons: list[Daemon]) -> None:
        for daemon in daemons:
            daemon.start()
        for daemon in daemons:
            self.wait(daemon.ready, START_S, f"{daemon.name} to be ready")

    def _all_idle(self) -> bool:
        return self.sinfo("--noheader", "--Node", "--partition=main", "--format=%T").split() == ["idle"] * len(
            self.nodes
        )

    def stop(self) -> None:
        """End everything at once: process 1 first, and the kernel all others with it."""
        self._namespaces.stop()
        for daemon in self.daemons:
            daemon.reap()

    def _write_files(self) -> None:
        layout = self.layout
        for folder in (layout.folder, layout.logs, layout.folder / "state", layout.munge_socket.parent, self.work):
            folder.mkdir(parents=True, exist_ok=True)
        self.work.chmod(0o1777)
        write_secret(layout.munge_socket.parent / "key", secrets.token_bytes(128))
        if self._accounting:
            self._accounting.create()
        self._write_slurm()
        master = secrets.token_hex(32).encode()
        self.controller_files.create()
        write_secret(self.controller_files.etc / "key", master)
        ledger = {"path": str(self.controller_files.ledger)}
        self._write_config(self.controller_files.etc, {"ledger": ledger})
        listen = {"listen": f"127.0.0.1:{self.layout.standby_port}"}
        self._write_config(self.controller_files.etc, {"ledger": ledger, "controller": listen}, Path(STANDBY_PATH).name)
        for node in self.nodes.values():
            node.files.create(self._gpus)
            write_secret(node.files.etc / "key", node_key(master, node.name))
            gpus = PCI_ADDRESSES[: self._gpus]
            self._write_config(
                node.files.etc, {"node": {"name": node.name, "expected_gpus": len(gpus), "gpus": list(gpus)}}
            )

    def _write_slurm(self) -> None:
        books = self._accounting.slurm_conf if self._accounting else {}
        text = settings.slurm_conf(self.layout, self._gpus, self._cpus, self._hooks, {**books, **self._conf})
        settings.write_slurm(self.layout, text, self._gpus)

    def _write_config(self, folder: Path, own: Mapping[str, Any], name: str = Path(CONFIG_PATH).name) -> None:
        common = {
            "cluster": "lab",
            "controller": {
                "address": f"127.0.0.1:{self.layout.service_port}",
                **({"standby_address": f"127.0.0.1:{self.layout.standby_port}"} if self._standby else {}),
                "user": "root",
                "munge_socket": self.layout.munge_socket,
                **own.get("controller", {}),
            },
            "slurm": {"conf": str(self.layout.slurm_conf)},
            # The rest looks at what these nodes do not have (a driver) or have in common (this machine).
            "checks": {"off": sorted(shipped().keys() - {"gpu_count"})},
        }
        (folder / name).write_text(settings.wheeltapper_toml({**own, **common}, self._config))

    def reconfigure(self, **changes: str | None) -> None:
        """Change lines of slurm.conf (None takes one out) and let all daemons read it again."""
        self._conf |= changes
        self._write_slurm()
        self.scontrol("reconfigure")

    # What commands need

    @property
    def environment(self) -> dict[str, str]:
        return {**ENVIRONMENT, "SLURM_CONF": str(self.layout.slurm_conf)}

    @property
    def controller_place(self) -> Place:
        return self.controller_files.place

    def enter(self, argv: tuple[str, ...], place: Place, user: str | None) -> list[str]:
        return self._namespaces.command(argv, place, user)

    def logs(self, lines: int = 25) -> str:
        tails = {daemon.name: daemon.tail(lines) for daemon in self.daemons}
        return "\n".join(f"== {name}\n{tail}" for name, tail in tails.items() if tail)

    def tails(self, lines: int = 25) -> str:
        views = [("squeue", "--all"), ("sinfo", "--Node", "--long")] if self.slurmctld.running else []
        said = [f"== {view[0]}\n{self.run(*view, check=False).stdout}" for view in views]
        return "\n".join([self.logs(lines), *said])
