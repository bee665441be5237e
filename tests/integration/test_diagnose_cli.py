"""``wheeltapper diagnose`` as people and programs call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

OOM = "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, name=python, GPU has fallen off the bus.\n"
WATCHDOG = (
    "[rank0]:[E] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, "
    "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
)


@pytest.fixture
def diagnose(tmp_path):
    config = tmp_path / "empty.toml"
    config.write_text("[diagnosis]\ncatalogue_dirs = []\n", encoding="utf-8")
    environment = {**os.environ, "WHEELTAPPER_CONFIG": str(config), "NO_COLOR": "1", "COLUMNS": "200"}

    def run(*arguments: str | Path, stdin: bytes = b""):
        command = [sys.executable, "-m", "wheeltapper.cli.main", "diagnose", *map(str, arguments)]
        return subprocess.run(command, input=stdin, capture_output=True, env=environment, timeout=60, check=False)

    return run


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "case"
    place.mkdir()
    (place / "slurm-12.out").write_text("step 1\n" + WATCHDOG, encoding="utf-8")
    (place / "dmesg.n2.log").write_text(f"[ 9.000001] usb 1-1: new device\n[ 9.000002] {XID}", encoding="utf-8")
    (place / "model.pt").write_bytes(b"PK\x03\x04" + bytes(64))
    return place


def test_a_folder_with_a_kernel_log_names_node_gpu_and_line(diagnose, folder):
    done = diagnose("--json", folder)
    answer = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (answer["label"], answer["action"], answer["symptom"]) == (
        "hardware/gpu_xid",
        "drain_node",
        "network/nccl_timeout",
    )
    assert answer["cause"] == {"file": "dmesg.n2.log", "line": 2}
    assert answer["diagnosis"]["suspects"][0]["node"] == "n2"
    assert answer["diagnosis"]["confirmed"] is True


def test_a_person_reads_what_why_where_and_what_to_do(diagnose, folder):
    text = diagnose(folder).stdout.decode()
    assert text.splitlines()[0] == "hardware/gpu_xid xid=79"
    assert "hardware/gpu_xid xid=79 on n2 GPU 0000:3b:00: GPU has fallen off the bus (dmesg.n2.log:2); the NCCL" in text
    assert "slurm-12.out:2: [E] [Rank 0] Watchdog caught" in text
    assert "network/nccl_timeout (slurm-12.out:2): a symptom, which hardware/gpu_xid explains" in text
    assert text.splitlines()[-1] == "Suggested action: drain_node (confirmed by the node)"


def test_the_answer_is_the_same_to_the_byte(diagnose, folder):
    assert diagnose("--json", folder).stdout == diagnose("--json", folder).stdout


def test_the_same_kernel_line_in_a_jobs_log_is_hearsay(diagnose, tmp_path):
    (tmp_path / "slurm-12.out").write_text(f"step 1\n{XID}{WATCHDOG}", encoding="utf-8")
    answer = json.loads(diagnose("--json", tmp_path / "slurm-12.out").stdout)
    assert (answer["label"], answer["action"]) == ("network/nccl_timeout", "requeue")
    assert answer["diagnosis"]["rejected"][0]["label"] == "hardware/gpu_xid"


def test_standard_input_is_read(diagnose):
    answer = json.loads(diagnose("--json", "-", stdin=("step 1\n" + OOM).encode()).stdout)
    assert (answer["label"], answer["cause"]) == ("software/oom", {"file": "stdin", "line": 2})
    kernel = json.loads(diagnose("--json", "-", stdin=f"[ 9.000002] {XID}".encode()).stdout)
    assert kernel["action"] == "drain_node"


def test_no_cause_is_exit_code_3(diagnose, tmp_path):
    log = tmp_path / "slurm-12.out"
    log.write_text("step 1\nstep 2\n", encoding="utf-8")
    done = diagnose("--json", log)
    assert (done.returncode, json.loads(done.stdout)["label"], json.loads(done.stdout)["action"]) == (
        3,
        "none/none",
        "none",
    )
    log.write_text("step 1\nsrun: error: n1: task 0: Exited with exit code 1\n", encoding="utf-8")
    done = diagnose("--json", log)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["label"], answer["action"], answer["cause"]) == (
        3,
        "unknown/unknown",
        "requeue",
        {"file": str(log), "line": 2},
    )


def test_bad_input_is_exit_code_2_and_one_line(diagnose, tmp_path):
    (tmp_path / "hollow").mkdir()
    (tmp_path / "bad.toml").write_text("[[signature]]\nid = 'site.x'\n", encoding="utf-8")
    (tmp_path / "log").write_text("x\n", encoding="utf-8")
    for arguments, told in (
        ([tmp_path / "absent"], b"does not exist"),
        ([tmp_path / "hollow"], b"holds no file"),
        (["-", tmp_path / "log"], b"stands alone"),
        (["--catalogue", tmp_path, tmp_path / "log"], b"bad.toml:1: site.x: "),
    ):
        done = diagnose(*arguments)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
        assert told in done.stderr


def test_a_sites_own_signature_counts(diagnose, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "licence.toml").write_text(
        """
[[signature]]
id = "site.licence"
label = "software/config"
role = "root"
sources = ["job_log"]
anchors = ["no licence left"]
summary = "the licence server has none left"
examples = ["E: no licence left"]
near_misses = ["licence ok"]
source = "our tools"
""",
        encoding="utf-8",
    )
    (tmp_path / "log").write_text("E: no licence left\n", encoding="utf-8")
    answer = json.loads(diagnose("--json", "--catalogue", tmp_path / "site", tmp_path / "log").stdout)
    assert answer["label"] == "software/config"
