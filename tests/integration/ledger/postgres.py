"""A PostgreSQL server of a test's own: Debian's binaries, an unprivileged user, a unix socket in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg

from tests.integration.node import until

PLACES = "usr/lib/postgresql/*/bin"
USERS = ("postgres", "nobody")
STOP_S = 20.0


class NoServerError(Exception):
    """There can be no server here; the message says why."""


class Server:
    """Runs until :meth:`close`, or until the process that made it is gone. It listens on no address."""

    def __init__(self) -> None:
        """Make and start it.

        Raises:
            NoServerError: PostgreSQL is not installed, or it cannot run as an unprivileged user.
        """
        programs = _programs()
        self._as_user = _unprivileged()
        self.folder = Path(tempfile.mkdtemp(prefix="wheeltapper-pg-"))
        try:
            self._start(programs)
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        self._databases = 0

    def _start(self, programs: Path) -> None:
        data = self.folder / "data"
        if os.geteuid() == 0:
            user = pwd.getpwnam(self._as_user[-1])
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        prefix = ["setpriv", "--pdeathsig", "INT", *self._as_user[:-1]]
        made = [*prefix, programs / "initdb", "--no-sync", "--auth=trust", "--username=tester", "--encoding=UTF8"]
        subprocess.run([*made, "--pgdata", data], check=True, capture_output=True, cwd=self.folder)
        options = {"listen_addresses": "", "unix_socket_directories": self.folder, "fsync": "off"}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*prefix, programs / "postgres", "-D", data, *words], cwd=self.folder, stdout=log, stderr=log
            )
        ready = [programs / "pg_isready", "--quiet", "--host", self.folder]
        until(lambda: subprocess.run(ready, check=False).returncode == 0, "PostgreSQL to answer")

    def database(self) -> str:
        """Make an empty database and return its connection string."""
        self._databases += 1
        name = f"ledger{self._databases}"
        with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._dsn(name)

    def _dsn(self, name: str) -> str:
        return f"host={self.folder} user=tester dbname={name}"

    def restart_connections(self) -> None:
        """Cut off everybody, as a restart of the server does."""
        with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )

    def close(self) -> None:
        """Stop it, and leave nothing."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(STOP_S)
        shutil.rmtree(self.folder)


def _programs() -> Path:
    found = sorted(Path("/").glob(PLACES), key=lambda place: int(place.parent.name))
    whole = [place for place in found if (place / "initdb").exists() and (place / "postgres").exists()]
    if not whole:
        raise NoServerError(
            "PostgreSQL is not installed here; on Debian: apt-get install --no-install-recommends postgresql"
        )
    return whole[-1]


def _unprivileged() -> list[str]:
    """Return the words for setpriv, the user's name last: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return [""]
    for name in USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", name]
    raise NoServerError(f"PostgreSQL does not run as root, and there is no user {' or '.join(USERS)}")
