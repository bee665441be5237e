"""The shell stubs under both shells, with no agent anywhere: the fast path, and passing when anything is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.node import HOOKS, Node, boot_id

SHELLS = ["dash", "bash"]
NAMES = ["prolog", "epilog", "healthcheck"]


@pytest.fixture(params=SHELLS)
def shell(request):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture
def broken_client(node):
    """A client that would leave a trace and end badly: proof that the fast path does not reach it."""
    folder = node.folder / "broken"
    (folder / "wheeltapper_hooks").mkdir(parents=True)
    (folder / "wheeltapper_hooks" / "client.py").write_text(f"open({str(node.folder / 'reached')!r}, 'w'); 1 / 0\n")
    (node.folder / "hooks.conf").write_text(f"hooks={folder}\n")
    return node.folder / "reached"


@pytest.mark.parametrize("state", ["ok", "warn"])
def test_a_current_good_verdict_passes_and_leaves_the_jobs_marker(node: Node, shell, state, broken_client):
    node.write_verdict(state)
    ended = node.hook("prolog", "12", shell=shell, SLURM_JOB_GPUS="0,1")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert not broken_client.exists()
    lines = dict(line.split("=", 1) for line in node.marker("12").read_text().splitlines())
    assert float(lines.pop("uptime")) == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=5)
    assert lines == {"boot_id": boot_id(), "uid": str(os.getuid()), "gpus": "0,1"}


@pytest.mark.parametrize(
    ("state", "changes"),
    [
        ("fail", {}),
        ("unknown", {}),
        ("ok", {"left": 0.0}),
        ("ok", {"boot": "00000000-0000-0000-0000-000000000000"}),
    ],
)
def test_a_verdict_that_is_bad_expired_or_of_another_boot_is_not_taken(
    node: Node, shell, state, changes, broken_client
):
    node.write_verdict(state, **changes)
    node.hook("prolog", shell=shell)

    assert broken_client.exists()


@pytest.mark.parametrize("text", ["", "ok", "ok ok ok", "\x00\xff", "ok " + "x" * 100_000])
def test_a_verdict_that_is_none_is_not_taken(node: Node, shell, text, broken_client):
    node.verdict_file.write_text(text)
    ended = node.hook("prolog", shell=shell)

    assert ended.returncode == 0
    assert broken_client.exists()


@pytest.mark.parametrize("job", ["", "../../escaped", "7/../../../escaped", "7 8", "-1", "7;touch escaped"])
def test_an_odd_job_id_leaves_no_marker_and_passes(node: Node, shell, job):
    node.write_verdict("ok")
    before = sorted(node.folder.rglob("*"))
    ended = node.hook("prolog", job, shell=shell)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(node.folder.rglob("*")) == before


def test_a_marker_that_cannot_be_written_is_silent(node: Node, shell):
    node.write_verdict("ok")
    (node.run_dir / "jobs").rmdir()
    ended = node.hook("prolog", shell=shell)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to count processes")
def test_the_fast_path_starts_no_process(node: Node, shell):
    node.write_verdict("ok")
    command = ["strace", "-f", "-qq", "-e", "trace=process", shell, str(HOOKS / "prolog")]
    environment = {**node.environment, "SLURM_JOB_ID": "7"}
    traced = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    calls = [line.split("(")[0] for line in traced.stderr.splitlines() if "(" in line]
    assert "execve" in calls
    assert not {"fork", "vfork", "clone", "clone3"} & set(calls)


@pytest.mark.parametrize("hook", NAMES)
@pytest.mark.parametrize(
    "conf",
    [
        "",
        "python=/nowhere/python\n",
        "python=\nhooks=\n",
        "hooks=/nowhere\n",
        "$(touch pwned) `touch pwned`; touch pwned\nif then fi\n\x00\xff",
        "python=/bin/false\n",
        "python=/bin/true",
    ],
)
def test_a_broken_hooks_conf_never_fails_a_hook(node: Node, shell, hook, conf):
    (node.folder / "hooks.conf").write_text(conf)
    ended = node.hook(hook, shell=shell)

    assert (ended.returncode, ended.stdout) == (0, "")
    assert not list(Path.cwd().glob("pwned"))


@pytest.mark.parametrize("hook", NAMES)
def test_a_stub_that_stands_alone_passes(node: Node, shell, hook, tmp_path):
    """No client beside it, as when Slurm in configless mode has sent only the stub."""
    alone = shutil.copy(HOOKS / hook, tmp_path / hook)
    ended = subprocess.run([shell, alone], env=node.environment, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize("hook", NAMES)
def test_a_stub_called_through_a_link_finds_its_client(node: Node, shell, hook, tmp_path):
    link = tmp_path / f"10-{hook}"
    link.symlink_to(HOOKS / hook)
    subprocess.run([shell, str(link)], env=node.environment, check=True)

    assert f"{hook}[" in node.hooks_log


def test_hooks_conf_names_the_python(node: Node, shell, tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/called\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (node.folder / "hooks.conf").write_text(f"# a comment\npython={python}")
    node.hook("epilog", shell=shell)

    assert (tmp_path / "called").read_text().split() == [
        "-I",
        "-S",
        str(HOOKS / "wheeltapper_hooks/client.py"),
        "epilog",
    ]


@pytest.mark.parametrize("status", [1, 2, 3, 99, 101, 120, 126, 127])
def test_only_the_clients_own_code_becomes_exit_1(node: Node, shell, status, tmp_path):
    """A Python that dies ends in 1, 2 or more; none of that may drain a node."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexit {status}\n")
    python.chmod(0o755)
    (node.folder / "hooks.conf").write_text(f"python={python}\n")

    assert node.hook("prolog", shell=shell).returncode == 0
    python.write_text("#!/bin/sh\nexit 100\n")
    assert node.hook("prolog", shell=shell).returncode == 1


def test_a_client_killed_by_a_signal_passes(node: Node, shell, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -KILL $$\n")
    python.chmod(0o755)
    (node.folder / "hooks.conf").write_text(f"python={python}\n")

    assert node.hook("prolog", shell=shell).returncode == 0


def test_the_stubs_share_their_second_half():
    halves = {(HOOKS / name).read_text().partition("# From here on the three stubs are the same")[2] for name in NAMES}

    assert len(halves) == 1
    assert "wheeltapper_hooks/client.py" in halves.pop()


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_has_nothing_to_say():
    subprocess.run(["shellcheck", *(str(HOOKS / name) for name in NAMES)], check=True)
