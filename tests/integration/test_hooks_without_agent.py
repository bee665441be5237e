"""The thin client when no agent answers: it passes, unless the kernel's own log of this boot convicts."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from tests.integration.node import HOOKS, LOST, Node, boot_id
from wheeltapper_hooks import client

CLIENT = HOOKS / "wheeltapper_hooks" / "client.py"
HEAVY = {"os", "re", "json", "socket", "signal", "enum", "logging", "subprocess", "asyncio", "pathlib", "typing",
         "collections", "contextlib", "traceback", "site", "pydantic", "wheeltapper"}  # fmt: skip


def settings(node: Node, mode: str = "quarantine", **more: str) -> None:
    """What an agent that has run on this boot leaves behind."""
    pairs = {
        "node": node.name,
        "mode": mode,
        "kmsg": str(node.kmsg_file),
        "scontrol": str(node.slurm.folder / "scontrol"),
        "boot_id": boot_id(),
        **more,
    }
    (node.run_dir / "settings").write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
    (node.run_dir / "jobs").mkdir(exist_ok=True)


@pytest.mark.parametrize("hook", ["prolog", "epilog", "healthcheck"])
def test_without_an_agent_a_healthy_node_passes_and_says_so(node: Node, hook):
    settings(node)
    ended = node.hook(hook)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert "the agent could not be asked" in node.hooks_log
    assert node.hooks_log.count("\n") == 1
    assert node.slurm.calls == []


@pytest.mark.parametrize("hook", ["prolog", "healthcheck"])
def test_a_lost_gpu_drains_the_node_in_one_call(node: Node, hook):
    settings(node)
    node.lose_gpu()
    ended = node.hook(hook)

    assert ended.returncode == 1
    show, update = node.slurm.calls
    assert show == "show node n1 -o"
    assert update.startswith(
        "update NodeName=n1 State=DRAIN Reason=wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 "
    )
    assert node.slurm.reason in ended.stdout


def test_a_fault_of_the_jobs_stay_fails_its_epilog(node: Node):
    settings(node)
    assert node.hook("prolog").returncode == 0
    assert node.marker("7").exists()
    node.lose_gpu()

    assert node.hook("epilog").returncode == 1
    assert "job=7" in node.slurm.reason
    assert not node.marker("7").exists()


def test_a_fault_from_before_the_stay_does_not_fail_the_epilog(node: Node):
    settings(node)
    node.lose_gpu()
    node.hook("prolog")
    node.slurm.set("IDLE")

    assert node.hook("epilog").returncode == 0
    assert node.slurm.state == "IDLE"


@pytest.mark.parametrize("mode", ["observe", "", "nonsense"])
def test_outside_quarantine_and_full_nothing_is_done(node: Node, mode):
    settings(node, mode)
    node.lose_gpu()

    assert node.hook("prolog").returncode == 0
    assert node.slurm.calls == []
    assert "xid=79" in node.hooks_log


def test_a_node_whose_agent_never_ran_is_never_failed(node: Node):
    node.lose_gpu()

    assert node.hook("prolog").returncode == 0
    assert node.slurm.calls == []


def test_a_forged_line_convicts_nobody(node: Node):
    settings(node)
    node.lose_gpu(facility=1)

    assert node.hook("prolog").returncode == 0
    assert node.slurm.calls == []


def test_a_settled_fault_convicts_no_more_and_a_new_one_does(node: Node):
    sequence = node.lose_gpu()
    settings(node, settled=str(sequence))
    assert node.hook("prolog").returncode == 0

    node.lose_gpu("0000:86:00")
    assert node.hook("prolog").returncode == 1


def test_settled_sequence_numbers_of_another_boot_settle_nothing(node: Node):
    sequence = node.lose_gpu()
    settings(node, settled=str(sequence), boot_id="00000000-0000-0000-0000-000000000000")

    assert node.hook("prolog").returncode == 1


def test_a_foreign_drain_keeps_its_reason_and_the_job_stays_off(node: Node):
    settings(node)
    node.slurm.set("IDLE+DRAIN", "admin: swap PSU")
    node.lose_gpu()

    assert node.hook("prolog").returncode == 1
    assert node.slurm.calls == ["show node n1 -o"]
    assert node.slurm.reason == "admin: swap PSU"


def test_a_hanging_scontrol_costs_two_seconds_and_the_verdict_stands(node: Node):
    settings(node)
    node.lose_gpu()
    (node.slurm.folder / "hang").touch()
    began = time.monotonic()

    assert node.hook("prolog").returncode == 1
    assert time.monotonic() - began < 3.0


def test_scontrol_is_told_where_slurm_conf_is(node: Node):
    settings(node)
    node.lose_gpu()
    scontrol = node.slurm.folder / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$SLURM_CONF" >>{node.folder}/seen\n')
    node.hook("prolog", SLURM_CONF="/spool/slurm.conf")
    settings(node, slurm_conf="/etc/other.conf")
    node.hook("prolog", SLURM_CONF="/spool/slurm.conf")

    assert set((node.folder / "seen").read_text().split()) == {"/spool/slurm.conf", "/etc/other.conf"}


def test_a_failing_scontrol_leaves_the_verdict_standing(node: Node):
    settings(node)
    node.lose_gpu()
    (node.slurm.folder / "fail").touch()

    assert node.hook("prolog").returncode == 1
    assert node.slurm.calls == ["show node n1 -o"]


def test_an_unreadable_kernel_log_passes(node: Node):
    settings(node, kmsg=str(node.folder / "nowhere"))

    assert node.hook("prolog").returncode == 0
    assert "passed, because the hook itself failed" in node.hooks_log


def test_the_hooks_log_is_bounded(node: Node):
    settings(node)
    (node.run_dir / "hooks.log").write_text("x" * client.LOG_BYTES)
    node.hook("epilog")

    assert node.hooks_log == ""
    node.hook("epilog")
    assert node.hooks_log.count("\n") == 1


class Deaf:
    """Something that holds the agent's socket, says *talk* to whoever asks, and then hangs up or does not."""

    def __init__(self, node: Node, talk: bytes = b"", *, hang_up: bool = True) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(node.run_dir / "agent.sock"))
        self.socket.listen(8)
        self.asked = b""
        self._talk = talk
        self._hang_up = hang_up and bool(talk)
        self.kept: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            while not self.asked.endswith(b"\n\n"):
                self.asked += connection.recv(4096)
            connection.sendall(self._talk)
            if self._hang_up:
                connection.close()
            else:
                self.kept.append(connection)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        for each in (self.socket, *self.kept):
            each.close()


@pytest.mark.parametrize("hook", ["prolog", "epilog", "healthcheck"])
def test_a_silent_agent_is_given_up_after_two_seconds(node: Node, hook):
    settings(node)
    with Deaf(node):
        began = time.monotonic()
        assert node.hook(hook).returncode == 0
        assert client.SILENCE_S <= time.monotonic() - began < client.SILENCE_S + 1.5
    assert "the deadline is past" in node.hooks_log


def test_an_agent_that_asks_to_wait_is_waited_for_but_not_for_ever(node: Node):
    settings(node)
    with Deaf(node, b"wait 3600\n" * 2, hang_up=False):
        began = time.monotonic()
        assert node.hook("prolog").returncode == 0
        assert client.ASK_S <= time.monotonic() - began < client.TOTAL_S


@pytest.mark.parametrize(
    "talk", [b"1", b"\n", b"2 odd\n", b"100 odd\n", b"yes\n", b"wait soon\n", b"\xff\n", b"x" * 100_000]
)
def test_an_agent_that_talks_nonsense_fails_no_hook(node: Node, talk):
    settings(node)
    with Deaf(node, talk):
        assert node.hook("prolog").returncode == 0


@pytest.mark.parametrize(("talk", "code"), [(b"0 fit\n", 0), (b"1 not fit\n", 1), (b"wait 4\n1 not fit\n", 1)])
def test_the_agents_word_is_the_exit_code(node: Node, talk, code):
    with Deaf(node, talk):
        ended = node.hook("prolog")

    assert (ended.returncode, ended.stdout) == (code, "not fit\n" if code else "")
    assert node.hooks_log == ""


def test_the_question_holds_slurms_variables_and_nothing_a_user_adds(node: Node):
    with Deaf(node, b"0 fit\n") as agent:
        node.hook("prolog", SLURM_JOB_COMMENT="x\nSLURM_JOB_ID=1", SLURM_LONG="y" * 10_000, SECRET="z")
        hook, *lines = agent.asked.decode().split("\n")

    assert hook == "prolog"
    assert lines[-2:] == ["", ""]
    assert "SLURM_JOB_ID=7" in lines
    assert "SLURM_JOB_ID=1" not in lines
    assert not [line for line in lines if line.startswith(("SECRET", "SLURM_LONG", "PATH"))]


def test_nothing_keeps_the_hooks_output_open(node: Node):
    """Slurm waits until the pipe is closed, so a child that lives on must not hold it."""
    settings(node)
    node.lose_gpu()
    (node.slurm.folder / "hang").touch()
    environment = {**node.environment, "SLURM_JOB_ID": "7"}
    began = time.monotonic()
    stub = subprocess.Popen([str(HOOKS / "prolog")], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert stub.stdout is not None
    with stub:
        stub.stdout.read()

    assert time.monotonic() - began < 4.0
    assert stub.wait() == 1


@pytest.mark.parametrize("lost", [False, True])
def test_the_client_imports_nothing_heavy(node: Node, lost):
    """With no agent it loads all that it ever loads; -X importtime tells what that is."""
    settings(node)
    if lost:
        node.lose_gpu()
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(CLIENT), "prolog"]
    ended = subprocess.run(command, env=node.environment, capture_output=True, text=True, check=False)
    modules = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines() if line.startswith("import time:")}

    assert ended.returncode == (client.GUILTY if lost else 0)
    assert "wheeltapper_hooks.agentless" in modules
    assert not HEAVY & modules
    assert len(modules) < 40


def test_the_client_ends_by_itself_when_it_is_stopped_in_the_middle(node: Node):
    """SIGTERM is how Slurm ends a hook; nothing of ours lives on."""
    settings(node)
    with Deaf(node):
        environment = {**node.environment, "SLURM_JOB_ID": "7"}
        run = subprocess.Popen([sys.executable, "-I", "-S", str(CLIENT), "prolog"], env=environment)
        run.send_signal(signal.SIGTERM)
        assert run.wait(5) == -signal.SIGTERM


def test_the_device_is_read_to_its_end_as_a_file_is(node: Node):
    """Many lines, the telling one last and in the middle of a read."""
    settings(node)
    for number in range(3000):
        node.kernel(f"usb {number}: a line of no interest that fills the log")
    node.kernel(LOST.format(gpu="0000:86:00"))

    assert node.hook("prolog").returncode == 1
    assert "gpu=0000:86:00" in node.slurm.reason
