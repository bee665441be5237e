"""Full file systems, as df, stat, statvfs and quota tell of them."""

from __future__ import annotations

import pytest

from tests.unit.inputs.given import of
from wheeltapper.diagnosis.advice import Action, advise
from wheeltapper.diagnosis.diagnose import diagnose

DF = """$ df -h
Filesystem              Size  Used Avail Use% Mounted on
10.0.0.1@o2ib:/scratch   22P   22P  100T 100% /scratch
nfs1:/export/home        80T   80T     0 100% /home
/dev/loop3               92M   92M     0 100% /snap/core/1
/dev/nvme0n1p3          880G   12G  868G   2% /tmp
tmpfs                   252G  252G   16K 100% /dev/shm

not a row                                100% /elsewhere
"""
INODES = """Filesystem         Inodes     IUsed IFree IUse% Mounted on
nfs1:/export/home 2000000 2000000     0  100% /home
/dev/nvme0n1p3        0       0       0     - /boot/efi
"""
BLOCKS = """Filesystem     1K-blocks      Used Available Use% Mounted on
/dev/md0        92274688  92274620        68 100% /local scratch
/dev/md1        92274688  72274620  20000068  79% /data
"""
TARGETS = """UUID                       bytes        Used   Available Use% Mounted on
scr-OST0000_UUID           62.0T       62.0T        1.2M 100% /scr[OST:0]
"""
STAT = """  File: "/local"
    ID: fd0000000000 Namelen: 255     Type: ext2/ext3
Block size: 4096       Fundamental block size: 4096
Blocks: Total: 57542652   Free: 20000      Available: 0
Inodes: Total: 14655488   Free: 13000000
"""
STATVFS = (
    "/scratch/run: os.statvfs_result(f_bsize=4096, f_frsize=4096, f_blocks=1000, f_bfree=5, f_bavail=0, f_files=100000, "
    "f_ffree=7, f_favail=7, f_flag=4096, f_namemax=255)\n"
)
QUOTAS = """Disk quotas for user u (uid 20417):
     Filesystem   space   quota   limit   grace   files   quota   limit   grace
nfs1:/export/home  51200M*  50G     50G    none    311k       0       0
nfs1:/export/data  51200M   80G     90G            311k       0       0
"""


def full(text: str) -> list[tuple[str, str, int | None]]:
    found = of({"df.txt": text}).findings
    return [(each.signature, each.fields.get("mount", ""), each.evidence.line) for each in found]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (DF, [("filesystem.full", "/home", 4), ("filesystem.shm", "/dev/shm", 7)]),
        (INODES, [("filesystem.inodes", "/home", 2)]),
        (BLOCKS, [("filesystem.full", "/local", 2)]),
        (TARGETS, [("filesystem.full", "/scr[OST:0]", 2)]),
        (STAT, [("filesystem.full", "/local", 4)]),
        (STATVFS, [("filesystem.full", "/scratch/run", 1), ("filesystem.inodes", "/scratch/run", 1)]),
        (QUOTAS, [("filesystem.quota", "", 3)]),
    ],
    ids=["df -h", "df -i", "df", "lfs df", "stat -f", "statvfs", "quota"],
)
def test_what_is_full_is_named_with_its_line(text, wanted):
    assert full(text) == wanted


def test_a_log_that_begins_with_df_is_read_as_a_log():
    lines = [f"step {number} loss 2.0" for number in range(9)]
    text = DF + "\n".join(["starting", *lines, "torch.OutOfMemoryError: CUDA out of memory."])
    assert [each.label for each in of({"slurm-7.out": text}).findings] == ["software/oom"]


def asked(log: str, df: str = DF):
    case = of({"df.txt": df, "slurm-7.out": log})
    answer = diagnose(case.findings, case.attempt, window_s=1800.0)
    return answer.label, advise(answer)


def test_a_full_disk_alone_stops_nothing():
    assert asked("step 1 loss 2.0\n") == ("unknown/unknown", Action.NONE)


def test_a_checkpoint_that_could_not_be_written_is_the_full_disks():
    failed = "RuntimeError: [enforce fail at inline_container.cc:300] . PytorchStreamWriter failed writing file data/7: file write failed\n"
    assert asked(failed) == ("resource/disk_full", Action.NO_REQUEUE)
    assert asked(failed, BLOCKS.replace("        68", "2000000068"))[0] == "software/checkpoint"


def test_what_the_log_says_plainly_lies_deeper_than_how_disks_stood_afterwards():
    assert asked("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")[0] == "software/oom"
