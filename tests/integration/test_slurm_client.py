"""Both backends of the client of slurmctld, on what real ones have said: the same calls, the same answers.

The commands are scripts that print the recorded samples of a release; pyslurm is a stand-in for the module in a real
child process. The contract on a real cluster, where pyslurm is the real one too, is tests/e2e/slurm/test_client.py.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.unit.slurm import pyslurm_stand_in
from wheeltapper import config
from wheeltapper.errors import SchedulerDown, SchedulerError
from wheeltapper_slurm import choosing
from wheeltapper_slurm.pyslurm_client import PyslurmClient
from wheeltapper_slurm.pyslurm_process import PyslurmProcess
from wheeltapper_slurm.scontrol import Scontrol

SAMPLES = pyslurm_stand_in.SAMPLES
ROOT = Path(__file__).parents[2]

NAME = "train UserId=root(0) JobState=FAILED Requeue=0"
"""What the recorded jobs 1 were called."""

SCONTROL = """#!/bin/sh
# What the real one prints; $FOLDER/trouble is what it says instead, $FOLDER/hang makes it hang.
echo "scontrol $*" >> "{folder}/asked"
[ ! -e "{folder}/hang" ] || exec sleep 600
case "{release} $*" in
22.05*) ;;
# Whatever went wrong, it succeeds and shows no job: seen with 24.11.5 and 26.05.5.
*"--json show job "*) [ ! -e "{folder}/trouble" ] || {{ echo '{{"jobs": [], "errors": []}}'; exit 0; }} ;;
esac
[ ! -e "{folder}/trouble" ] || {{ cat "{folder}/trouble" >&2; exit 1; }}
case "$*" in
"--json show job "*)
    [ "{release}" != 22.05 ] || {{ echo "scontrol: unrecognized option '--json'" >&2; exit 1; }}
    file="{samples}/$(cat "{folder}/job-$4" 2>/dev/null).json"
    [ -e "$file" ] || {{ echo '{{"jobs": []}}'; exit 0; }}
    echo "{{\\"jobs\\": [$(head -n 1 "$file")]}}" ;;
"show job -o "*)
    file="{samples}/$(cat "{folder}/job-$4" 2>/dev/null).txt"
    [ -e "$file" ] || {{ echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }}
    cat "$file" ;;
"show node -o") cat "{samples}/nodes.txt" ;;
"show node -o "*)
    grep "^NodeName=$4 " "{samples}/nodes.txt" || {{ echo "Node $4 not found"; exit 1; }} ;;
"show config") cat "{samples}/config.txt" ;;
esac
"""

SQUEUE = """#!/bin/sh
echo "squeue $*" >> "{folder}/asked"
case "$*" in *--jobs=1) echo "{name}" ;; *) echo sbatch ;; esac
"""

CHILD = """
import sys, time
from pathlib import Path
from tests.unit.slurm import pyslurm_stand_in as pyslurm
pyslurm.add_samples({release!r}, *{samples!r})
if Path({folder!r}, "trouble").exists():
    pyslurm.trouble.append(pyslurm.RPCError(Path({folder!r}, "trouble").read_text()))
load = pyslurm.Job.load
def job(number):
    if Path({folder!r}, "hang").exists():
        time.sleep(600)
    return load(number)
pyslurm.Job.load = job
sys.modules["pyslurm"] = pyslurm
from wheeltapper_slurm import pyslurm_child
pyslurm_child.main()
"""

JOBS = {"1": "failed", "4": "running", "5_2": "array-task", "7": "completing", "10": "held-after-prolog"}


class Lab:
    """A backend, and the folder that makes its slurmctld behave."""

    def __init__(self, backend, folder, monkeypatch):
        kind, release = backend.split("-")
        self.folder, self.kind, self.release = folder, kind, release
        values = {"folder": folder, "release": release, "samples": SAMPLES / release, "name": NAME}
        for name, text in (("scontrol", SCONTROL), ("squeue", SQUEUE)):
            (folder / name).write_text(text.format(**values))
            (folder / name).chmod(0o755)
        for number, sample in JOBS.items():
            (folder / f"job-{number}").write_text(f"job-{sample}")
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        script = folder / "child.py"
        script.write_text(CHILD.format(release=release, folder=str(folder), samples=list(JOBS.values())))
        self.process = PyslurmProcess(None, 5.0, (sys.executable, str(script)))
        self.commands = Scontrol(None, 5.0)

    def limit(self, seconds):
        self.process._timeout = self.commands._timeout = seconds

    def ask(self, *calls):
        """Make the calls one after the other in one event loop; an error is the answer of its call."""

        async def run():
            client = PyslurmClient(self.process, self.commands) if self.kind == "pyslurm" else self.commands
            try:
                return [await self._one(client, *call) for call in calls]
            finally:
                await self.process.close()

        answers = asyncio.run(run())
        return answers[0] if len(calls) == 1 else answers

    async def _one(self, client, name, *arguments):
        try:
            return await getattr(client, name)(*arguments)
        except SchedulerError as error:
            return error

    def nameless(self, *jobs):
        """Those of *jobs* whose names must be asked for."""
        return jobs if self.release == "22.05" else ()

    def asked(self):
        file = self.folder / "asked"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture(params=["command-22.05", "command-24.11", "command-26.05", "pyslurm-24.11"])
def lab(request, tmp_path, monkeypatch):
    return Lab(request.param, tmp_path, monkeypatch)


def test_jobs_are_read_alike(lab):
    failed, running, task, completing, held, unknown = lab.ask(*(("job", number) for number in [*JOBS, "999"]))

    assert (failed.state, failed.exit_code, failed.excluded, failed.uid) == ("FAILED", 7, ("node3", "node4"), 0)
    assert failed.admin_comment.startswith("wheeltapper: a1 hardware/gpu_xid")
    assert (running.state, running.batch_host, running.nodes, running.active) == ("RUNNING", "node1", 2, True)
    assert (task.id, task.target) == ("5", "5_2")
    assert (completing.state, completing.completing) == ("COMPLETING", True)
    assert (held.held, held.reason) == (True, "launch_failed_requeued_held")
    assert unknown is None


def test_nodes_are_read_alike(lab):
    nodes, one, unknown = lab.ask(("nodes",), ("node", "node2"), ("node", "node9"))

    assert {"node1", "node2"} <= {each.name for each in nodes}
    assert one.drained
    assert one.reason.startswith("wheeltapper: hardware/gpu_xid xid=79")
    assert one.partitions == ("main",)
    assert unknown is None


@pytest.mark.parametrize(
    "words",
    [
        "scontrol: error: slurm_msg_sendto: address:port=10.0.0.1:6817 msg_type=2003: Unexpected missing socket error",
        "Unable to contact slurm controller (connect failure)",
        "slurm_load_jobs error: Connection reset by peer",
        "slurm_load_jobs error: Transport endpoint is not connected",
        "slurm_load_partitions error: Zero Bytes were transmitted or received",
        "slurm_update error: Slurm backup controller in standby mode",
    ],
)
def test_a_slurmctld_that_is_away_or_dies_in_its_answer_is_down_and_not_a_refusal(lab, words):
    (lab.folder / "trouble").write_text(words)

    answers = lab.ask(("job", "4"), ("node", "node1"), ("requeue", "4"), ("drain", "node1", "x"))

    assert [type(each) for each in answers] == [SchedulerDown] * 4


def test_what_slurmctld_refuses_is_told_in_its_words(lab):
    (lab.folder / "trouble").write_text("Requested operation is presently disabled")

    answer = lab.ask(("requeue", "4"))

    assert type(answer) is SchedulerError
    assert "Requested operation is presently disabled" in str(answer)


def test_a_call_that_hangs_is_cut_off_and_holds_nobody_else_up(lab):
    """pyslurm does not let go of Python's lock while it waits, so it hangs in a process of its own."""
    (lab.folder / "hang").touch()
    lab.limit(0.5)
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.01)

    async def run():
        ticking = asyncio.create_task(tick())
        client = PyslurmClient(lab.process, lab.commands) if lab.kind == "pyslurm" else lab.commands
        with pytest.raises(SchedulerDown, match=r"within 0\.5 s"):
            await client.job("4")
        (lab.folder / "hang").unlink()
        lab.limit(10.0)
        again = await client.job("4")
        ticking.cancel()
        await lab.process.close()
        return again

    assert asyncio.run(run()).state == "RUNNING", "after a call that was cut off, the next one is answered"
    assert len(ticks) > 5


def test_tasks_of_arrays_are_never_acted_on_by_a_number(lab):
    lab.ask(("requeue", "5_2"), ("release", "5_2"), ("update_job", "5_2", "StartTime", "now"))

    assert [line for line in lab.asked() if "5" in line] == [
        "scontrol requeue 5_2",
        "scontrol release 5_2",
        "scontrol update JobId=5_2 StartTime=now",
    ]


def test_only_where_there_is_no_json_a_jobs_name_is_asked_for(lab):
    lab.ask(("job", "1"), ("job", "1", NAME), ("job", "4", "another name"))

    names = [line for line in lab.asked() if line.startswith("squeue")]
    assert names == [f"squeue --noheader --all --states=all --format=%j --jobs={job}" for job in lab.nameless("1", "4")]


def test_a_command_that_is_not_there_is_no_refusal(tmp_path):
    """While Slurm is upgraded, say: the same call may succeed later."""
    commands = Scontrol(None, 5.0)
    commands._environment = {"PATH": str(tmp_path)}

    with pytest.raises(SchedulerDown, match="scontrol cannot be started: No such file"):
        asyncio.run(commands.requeue("1"))


# Which one is chosen


def chosen(lab, client="auto", installed=True):
    section = config.SlurmSection(client=client)

    async def run():
        try:
            return await choosing.choose(section, lab.commands, lab.process, lambda: installed)
        finally:
            await lab.process.close()

    return asyncio.run(run())


@pytest.fixture
def with_pyslurm(tmp_path, monkeypatch):
    return Lab("pyslurm-24.11", tmp_path, monkeypatch)


def test_pyslurm_is_chosen_where_it_is_of_slurmctlds_release(with_pyslurm):
    assert chosen(with_pyslurm) == choosing.Choice("pyslurm", "it can be imported and is of slurmctld's release")
    assert chosen(with_pyslurm, "pyslurm").used == "pyslurm"


def test_the_configuration_has_the_last_word(with_pyslurm):
    assert chosen(with_pyslurm, "command") == choosing.Choice("command", "the configuration says so")
    assert with_pyslurm.asked() == []


def test_without_pyslurm_the_commands_are_used(with_pyslurm):
    assert chosen(with_pyslurm, installed=False) == choosing.Choice("command", "pyslurm is not installed")
    with pytest.raises(SchedulerError, match=r"slurm\.client is pyslurm, but pyslurm is not installed"):
        chosen(with_pyslurm, "pyslurm", installed=False)


def test_a_pyslurm_of_another_release_is_not_used(tmp_path, monkeypatch):
    lab = Lab("pyslurm-24.11", tmp_path, monkeypatch)
    scontrol = lab.folder / "scontrol"
    scontrol.write_text(scontrol.read_text().replace(str(SAMPLES / "24.11"), str(SAMPLES / "26.05")))

    assert chosen(lab).why == "pyslurm is made for Slurm 24.11, and slurmctld is 26.05.5"


def test_a_pyslurm_that_cannot_be_imported_is_not_used(with_pyslurm):
    (with_pyslurm.folder / "child.py").write_text(
        "import sys\nsys.modules['pyslurm'] = None\nfrom wheeltapper_slurm import pyslurm_child\npyslurm_child.main()\n"
    )

    assert chosen(with_pyslurm).why.startswith("pyslurm cannot be used: pyslurm cannot be imported")


def test_a_library_that_ends_its_process_ends_only_its_own(with_pyslurm):
    """libslurm does so where it finds no slurm.conf."""
    (with_pyslurm.folder / "child.py").write_text("raise SystemExit(1)\n")

    assert chosen(with_pyslurm).why == "pyslurm cannot be used: pyslurm's start failed, its process has ended"


def test_a_slurmctld_that_is_away_at_the_start_leaves_the_commands(with_pyslurm):
    (with_pyslurm.folder / "trouble").write_text("Unable to contact slurm controller (connect failure)")

    choice = chosen(with_pyslurm)
    assert choice.used == "command"
    assert choice.why.startswith("slurmctld's release is not known")
