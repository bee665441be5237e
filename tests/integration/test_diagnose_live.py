"""``wheeltapper diagnose`` of a job by its id or name, with fake commands of the schedulers on PATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
TIME_LIMIT = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***\n"


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    config = tmp_path / "empty.toml"
    config.write_text("[diagnosis]\ncatalogue_dirs = []\n", encoding="utf-8")
    environment = {"PATH": str(folder), "WHEELTAPPER_CONFIG": str(config), "NO_COLOR": "1", "TZ": "UTC"}

    def fake(name: str, script: str) -> None:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def diagnose(*arguments: str):
        command = [sys.executable, "-m", "wheeltapper.cli.main", "diagnose", *arguments]
        return subprocess.run(
            command, capture_output=True, env={**os.environ, **environment}, cwd=tmp_path, timeout=60, check=False
        )

    diagnose.fake = fake
    return diagnose


def scontrol(log: Path, state: str) -> str:
    return (
        f'case "$*" in\n"show job 12") /bin/cat <<END\nJobId=12 JobName=t\n   JobState={state} Reason=None Dependency=(null)\n'
        f'   StartTime=2026-03-01T08:00:00$(test -n "$SLURM_TIME_FORMAT" && echo +0000) NodeList=n[1-2]\n   StdOut={log}\nEND\n;;\n'
        '"show node n1,n2") echo "NodeName=n1 Arch=x86_64 \n   State=IDLE";;\n*) exit 1;;\nesac'
    )


def test_a_slurm_job_by_its_id_is_its_record_and_its_log(run, tmp_path):
    log = tmp_path / "slurm-12.out"
    log.write_text("step 1\n" + OOM, encoding="utf-8")
    run.fake("scontrol", scontrol(log, "FAILED"))
    done = run("12", "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["label"], answer["cause"]) == (0, "software/oom", {"file": str(log), "line": 2})


def test_a_job_that_slurmctld_has_forgotten_is_known_to_sacct(run):
    run.fake("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    run.fake(
        "sacct", 'echo "JobID|JobName|State|ExitCode|Start|End|NodeList|Reason"; echo "12|t|TIMEOUT|0:0|||n1|None"'
    )
    answer = json.loads(run("12", "--json").stdout)
    assert (answer["label"], answer["action"], answer["cause"]) == (
        "scheduler/time_limit",
        "no_requeue",
        {"file": "sacct", "line": 2},
    )


def test_a_job_that_nobody_knows_is_one_line_and_exit_code_2(run):
    for asked, words in (("12", b"Slurm knows no job 12"), ("job/t", b"Kubernetes knows no job t")):
        done = run(asked)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
        assert words in done.stderr


def test_a_file_of_that_name_comes_first(run, tmp_path):
    (tmp_path / "12").write_text(OOM, encoding="utf-8")
    assert json.loads(run("12", "--json").stdout)["label"] == "software/oom"


def test_a_kubernetes_job_by_its_name_is_its_pods_events_and_logs(run):
    pods = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "t-worker-0"}, "status": {"phase": "Failed"}}
        ],
    }
    run.fake(
        "kubectl",
        f"""case "$*" in
*"-n ml"*) ;;
*) exit 1;;
esac
case "$*" in
"get pods -l training.kubeflow.org/job-name=t "*) echo '{json.dumps(pods)}';;
"logs t-worker-0 "*) echo "2026-03-01T10:00:00.000000000Z {OOM.strip()}";;
*) exit 1;;
esac""",
    )
    answer = json.loads(run("pytorchjob/t", "--namespace", "ml", "--json").stdout)
    assert (answer["label"], answer["cause"]) == ("software/oom", {"file": "t-worker-0.log", "line": 1})


def test_a_reader_that_has_seen_enough_is_no_error(run, tmp_path):
    (tmp_path / "slurm-12.out").write_text(OOM, encoding="utf-8")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "wheeltapper.cli.main", "diagnose", "slurm-12.out"]
    with os.fdopen(write, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_timeline_is_shown_to_people_and_programs(run, tmp_path):
    (tmp_path / "dmesg.n2.log").write_text(
        "2026-03-01T09:50:00,000000+00:00 NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n",
        encoding="utf-8",
    )
    (tmp_path / "slurm-12.out").write_text(TIME_LIMIT, encoding="utf-8")
    text = run("dmesg.n2.log", "slurm-12.out", "--timeline").stdout.decode()
    assert "Timeline, from 2026-03-01 09:50:00 UTC:" in text
    assert "+0:00:00.0  hardware/gpu_xid xid=79 (root) [root]: n2" in text
    assert "+0:10:00.0  scheduler/time_limit" in text
    events = json.loads(run("dmesg.n2.log", "slurm-12.out", "--timeline", "--json").stdout)["timeline"]
    assert [each["label"] for each in events] == ["hardware/gpu_xid xid=79", "scheduler/time_limit"]
    assert "timeline" not in json.loads(run("slurm-12.out", "--json").stdout)
