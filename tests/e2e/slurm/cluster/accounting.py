"""Slurm's accounting: slurmdbd over a MariaDB of the cluster's own, which listens on a socket in its folder alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.e2e.slurm.cluster.files import write_secret
from tests.e2e.slurm.cluster.settings import Layout


@dataclass(frozen=True, slots=True)
class Accounting:
    """Where the database and slurmdbd keep things."""

    layout: Layout

    @property
    def folder(self) -> Path:
        return self.layout.folder / "accounting"

    @property
    def socket(self) -> Path:
        return self.folder / "mariadb.socket"

    @property
    def port(self) -> int:
        """Where slurmdbd listens."""
        return self.layout.port + 60

    @property
    def install(self) -> tuple[str, ...]:
        """What makes an empty database, once."""
        return (
            "mariadb-install-db", "--no-defaults", "--user=root", "--skip-test-db",
            "--auth-root-authentication-method=normal", f"--datadir={self.folder}/data",
        )  # fmt: skip

    @property
    def mariadbd(self) -> tuple[str, ...]:
        return ("mariadbd", f"--defaults-file={self.folder}/my.cnf")

    @property
    def slurmdbd(self) -> tuple[str, ...]:
        # slurmdbd looks for its configuration beside slurm.conf, and its MariaDB client for the socket in this variable.
        return ("env", f"MYSQL_UNIX_PORT={self.socket}", "slurmdbd", "-D")

    @property
    def slurm_conf(self) -> dict[str, str]:
        """What slurm.conf says of it."""
        return {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(self.port),
            "AccountingStoragePass": str(self.layout.munge_socket),
            "JobAcctGatherType": "jobacct_gather/none",
        }

    def create(self) -> None:
        """Write the configuration."""
        self.folder.mkdir(parents=True)
        (self.folder / "my.cnf").write_text(
            f"[mysqld]\ndatadir={self.folder}/data\nsocket={self.socket}\npid-file={self.folder}/mariadb.pid\n"
            "skip-networking\nuser=root\ninnodb_buffer_pool_size=32M\ninnodb_flush_log_at_trx_commit=0\n"
            # The last is what slurmdbd 26.05 asks for; MariaDB 10.11 does not know it, and takes no offence at "loose".
            f"init-file={self.folder}/init.sql\nloose-innodb-snapshot-isolation=OFF\n"
        )
        # slurmdbd would make the database too, but not with the MariaDB client library 11.8.9, which refuses every
        # result after such a start ("Number of columns in result …").
        (self.folder / "init.sql").write_text("CREATE DATABASE IF NOT EXISTS slurm;\n")
        write_secret(
            self.layout.folder / "slurmdbd.conf",
            (
                "AuthType=auth/munge\n"
                f"AuthInfo=socket={self.layout.munge_socket}\n"
                f"DbdHost=localhost\nDbdAddr=127.0.0.1\nDbdPort={self.port}\n"
                "SlurmUser=root\nDebugLevel=verbose\n"
                f"LogFile={self.layout.logs}/slurmdbd.log\nPidFile={self.folder}/slurmdbd.pid\n"
                "StorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageUser=root\nStorageLoc=slurm\n"
            ).encode(),
        )
