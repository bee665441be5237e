"""An API server for tests leaves nothing behind, however its owner ends, and speaks for no other cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests import processes
from tests.integration.control_plane import ELSEWHERE, started

CHECKOUT = Path(__file__).parents[4]

OWNER = """
import sys
from pathlib import Path
from tests.integration.control_plane import started

with started(Path(sys.argv[1])) as plane:
    plane.controllers("job-controller")
    print("ready", flush=True)
    sys.stdin.read()
"""


def until_nothing(left, seconds=60.0):
    deadline = time.monotonic() + seconds
    while found := left():
        assert time.monotonic() < deadline, f"after {seconds:g} s there are still {found}"
        os.sched_yield()


@pytest.mark.parametrize("end", ["done", signal.SIGTERM, signal.SIGKILL], ids=str)
def test_whatever_ends_the_owner_ends_all(end, tmp_path):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=CHECKOUT
    )
    assert owner.stdout.readline() == b"ready\n"
    assert len(processes.naming(tmp_path)) == 4  # etcd, API server, controllers, and the owner
    if end == "done":
        owner.stdin.close()
    else:
        owner.send_signal(end)
    owner.wait(60)
    until_nothing(lambda: processes.naming(tmp_path))
    owner.stdout.close()
    with suppress(BrokenPipeError):
        owner.stdin.close()


def test_no_command_goes_to_another_cluster(tmp_path, monkeypatch):
    foreign = tmp_path / "foreign"
    foreign.write_text("not for you")
    monkeypatch.setenv("KUBECONFIG", str(foreign))
    (tmp_path / "plane").mkdir()
    with started(tmp_path / "plane") as plane:
        assert "127.0.0.1" in plane.kubectl("config", "view")
        for word in ELSEWHERE:
            with pytest.raises(ValueError, match="would leave this cluster"):
                plane.kubectl("get", "nodes", word, "elsewhere")
            with pytest.raises(ValueError, match="would leave this cluster"):
                plane.kubectl("get", "nodes", f"{word}=elsewhere")
