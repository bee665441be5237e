"""A munged of the tests' own: real MUNGE, with a key and a socket in a folder that goes with it."""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from tests.integration.node import until

MUNGED = shutil.which("munged", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


class Munged:
    """Runs until :meth:`close`. A second one with the same *key* and another *origin* is another host's."""

    def __init__(self, key: bytes | None = None, origin: str = "127.0.0.1") -> None:
        assert MUNGED is not None
        self.folder = Path(tempfile.mkdtemp(prefix="wheeltapper-munge-"))
        self.folder.chmod(0o755)
        self.key = key or secrets.token_bytes(128)
        self.socket = self.folder / "socket"
        file = self.folder / "key"
        file.touch(mode=0o600)
        file.write_bytes(self.key)
        names = ("socket", "key-file", "pid-file", "seed-file", "log-file")
        places = [f"--{name}={self.folder}/{name.partition('-')[0]}" for name in names]
        with (self.folder / "console").open("wb") as console:
            self._process = subprocess.Popen(
                [MUNGED, "--foreground", "--num-threads=2", f"--origin={origin}", *places],
                stdout=console,
                stderr=subprocess.STDOUT,
            )
        until(self.socket.exists, "munged to listen")

    def credential(self, payload: bytes, *options: str, user: str | None = None) -> str:
        """A credential as the command makes it, as *user* when it is another one."""
        done = subprocess.run(
            ["munge", f"--socket={self.socket}", *options], input=payload, capture_output=True, check=True, user=user
        )
        return done.stdout.decode().strip()

    def pause(self) -> None:
        """Let it hang: it holds its socket and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it, and take its folder away."""
        self.resume()
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self.folder)
