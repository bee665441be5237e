"""A node and its controller service: asking for leave, reporting, reading a job's logs as the job's user."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.integration.node import Node, until
from wheeltapper.wire import Answer, Leave, LogReport, Report

NOBODY = 65534

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")

CAUSE = "RuntimeError: CUDA error: an illegal memory access was encountered\n"


def leave_is(**answer):
    """Answer a question for leave so, and everything else with a nod."""
    return lambda message: Answer(**answer) if isinstance(message, Leave) else Answer()


def asks_for(*logs, uid=NOBODY, gid=NOBODY):
    """Ask a reporting node for *logs*."""
    paths = tuple(str(each) for each in logs)
    return lambda message: Answer(read=paths, uid=uid, gid=gid) if isinstance(message, Report) else Answer()


def closed_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


def test_the_service_takes_the_node_out_and_the_node_calls_no_slurm(node: Node, serve):
    service = serve(leave_is(out=True, reason="n1 is drained"))
    node.start()
    node.convict()
    ended = node.hook("prolog", "12")

    assert (ended.returncode, ended.stdout) == (1, "n1 is drained\n")
    assert node.slurm.calls == []
    [leave] = service.of(Leave)
    assert (leave.node, leave.context, leave.job) == ("n1", "prolog", "12")
    assert [each.detail for each in leave.findings] == ["xid=79"]


def test_when_the_budget_says_no_the_job_passes(node: Node, serve):
    serve(leave_is(out=False, reason="the budget of one node is used up"))
    node.start()
    node.convict()

    assert node.hook("prolog").returncode == 0
    assert node.slurm.calls == []
    assert "the budget of one node is used up" in node.log
    assert node.state == "fail"


def test_a_release_settles_the_fault_over_restarts(node: Node, serve):
    service = serve(leave_is(released=True))
    node.start()
    node.convict()
    assert node.hook("prolog").returncode == 0
    assert node.state == "warn"
    node.stop()
    node.start()
    assert node.hook("prolog").returncode == 0
    assert node.hook("healthcheck").returncode == 0

    assert len(service.of(Leave)) == 1


def test_without_an_answer_the_node_goes_by_its_own_hand(node: Node, serve):
    service = serve()
    service.close()
    node.start()
    node.convict()

    assert node.hook("prolog").returncode == 1
    assert node.slurm.state == "IDLE+DRAIN"


def test_a_service_that_never_answers_costs_little_more_than_a_second(node: Node, serve):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        serve()
        node.configure(controller={"address": f"127.0.0.1:{silent.getsockname()[1]}"})
        node.start()
        node.convict()
        began = time.monotonic()
        assert node.hook("prolog").returncode == 1
        assert time.monotonic() - began < 2.5
        assert node.slurm.state == "IDLE+DRAIN"


def test_a_wrong_key_is_no_answer(node: Node, serve):
    serve(leave_is(out=False))
    (node.folder / "key").write_bytes(b"another key, as long as a key must be")
    node.start()
    node.convict()

    assert node.hook("prolog").returncode == 1
    assert node.slurm.state == "IDLE+DRAIN"


def test_an_epilog_reports_the_jobs_stay(node: Node, serve):
    service = serve()
    node.configure(node={"gpus": ["0000:3b:00", "0000:86:00"]})
    node.start()
    began = time.time()
    node.hook("prolog", "7", SLURM_JOB_GPUS="1")
    node.kernel("NVRM: Xid (PCI:0000:86:00): 31, pid=7, name=python, Ch 00000008")
    assert node.hook("epilog", "7", SLURM_JOB_GPUS="1").returncode == 0

    [report] = service.heard(Report)
    assert (report.node, report.stay.job, report.stay.gpus) == ("n1", "7", ("0000:86:00",))
    assert report.stay.prolog_at == pytest.approx(began, abs=1.0)
    assert report.stay.epilog_at == pytest.approx(time.time(), abs=2.0)
    assert [each.detail for each in report.findings] == ["xid=31"]


def test_a_report_holds_what_came_a_minute_before_and_not_what_is_older(node: Node, serve):
    service = serve()
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    node.kernel("NVRM: Xid (PCI:0000:3b:00): 13, pid=1, Graphics Exception", usec=max(now - 100_000_000, 0))
    node.kernel("NVRM: Xid (PCI:0000:3b:00): 31, pid=1, Ch 00000008", usec=max(now - 30_000_000, 0))
    node.start()
    node.hook("prolog")
    node.hook("epilog")

    assert [each.detail for each in service.heard(Report)[0].findings] == ["xid=31"]


def test_the_guilty_epilog_asks_for_leave_and_reports(node: Node, serve):
    service = serve(leave_is(out=True))
    node.start()
    node.hook("prolog", "12")
    node.lose_gpu()

    assert node.hook("epilog", "12").returncode == 1
    assert [(each.context, each.job) for each in service.of(Leave)] == [("epilog", "12")]
    assert [each.stay.job for each in service.heard(Report)] == ["12"]


def test_an_undelivered_report_outlives_the_agent(node: Node, serve):
    port = closed_port()
    serve().close()
    node.configure(controller={"address": f"127.0.0.1:{port}"})
    node.start()
    assert node.hook("epilog", "1").returncode == 0
    assert node.hook("epilog", "2").returncode == 0
    assert node.status()["undelivered"] == 2
    node.stop(signal.SIGKILL)

    service = serve(port=port)
    node.start()
    until(lambda: len(service.of(Report)) == 2, "both reports")
    until(lambda: node.status()["undelivered"] == 0, "an empty outbox")
    assert [each.stay.job for each in service.of(Report)] == ["1", "2"]


def test_a_report_is_sent_again_when_the_service_is_back(node: Node, serve):
    port = closed_port()
    serve().close()
    node.configure(controller={"address": f"127.0.0.1:{port}"})
    node.start()
    node.hook("epilog", "1")

    service = serve(port=port)
    until(lambda: service.of(Report), "the report")
    assert len(service.of(Report)) == 1


def test_without_a_key_there_is_no_service_and_nothing_piles_up(node: Node):
    node.start()
    node.hook("epilog", "1")
    node.hook("epilog", "2")

    assert node.status()["undelivered"] == 0
    assert node.log.count("there is no key file") == 1


@is_root
def test_the_jobs_logs_are_read_as_its_user(node: Node, serve, public):
    log = public / "slurm-7.out"
    log.write_text("a line\n" + CAUSE)
    os.chown(log, NOBODY, NOBODY)
    log.chmod(0o600)
    service = serve(asks_for(log))
    node.start()
    assert node.hook("epilog").returncode == 0

    [logs] = service.heard(LogReport)
    assert logs.unreadable == ()
    assert [(each.evidence.file, each.evidence.line) for each in logs.findings] == [(str(log), 2)]
    assert logs.stay == service.heard(Report)[0].stay


@pytest.fixture
def public():
    """A folder that every user can reach; pytest keeps its own for us alone, and other sessions close them again."""
    with tempfile.TemporaryDirectory(prefix="wheeltapper-public-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@is_root
@pytest.mark.parametrize("how", ["symlink", "plain"])
def test_a_file_that_the_user_may_not_read_stays_unread(node: Node, serve, public, how):
    """A job's owner can put a link in the place of the log; what only root may read must not come out."""
    secret = public / "secret"
    secret.write_text(CAUSE)
    secret.chmod(0o600)
    log = secret
    if how == "symlink":
        log = public / "slurm-7.out"
        log.symlink_to(secret)
    service = serve(asks_for(log))
    node.start()
    node.hook("epilog")

    [logs] = service.heard(LogReport)
    assert logs.findings == ()
    assert logs.unreadable == (f"{log}: Permission denied",)


@is_root
def test_pipes_missing_files_and_folders_are_named_and_do_not_hang(node: Node, serve, public):
    os.mkfifo(public / "pipe", 0o666)
    (public / "folder").mkdir()
    paths = [public / "pipe", public / "folder", public / "missing"]
    service = serve(asks_for(*paths))
    node.start()
    began = time.monotonic()
    assert node.hook("epilog").returncode == 0
    assert time.monotonic() - began < 2.0

    [logs] = service.heard(LogReport)
    assert [each.partition(": ")[2] for each in logs.unreadable] == [
        "not a regular file",
        "not a regular file",
        "No such file or directory",
    ]


def test_logs_whose_owner_was_not_named_are_not_read(node: Node, serve, tmp_path):
    log = tmp_path / "log"
    log.write_text(CAUSE)
    service = serve(asks_for(log, uid=None, gid=None))
    node.start()
    node.hook("epilog")

    [logs] = service.heard(LogReport)
    assert (logs.findings, logs.unreadable) == ((), (f"{log}: whose it is was not said",))


def test_no_epilog_waits_for_a_delivery(node: Node, serve, tmp_path):
    """The node would stay COMPLETING: what the service or a log needs is the agent's time, not the node's."""
    log = tmp_path / "log"
    log.write_text(CAUSE)
    go_on = threading.Event()

    def answer(message):
        go_on.wait(5)
        return asks_for(log, uid=os.getuid(), gid=os.getgid())(message)

    service = serve(answer)
    node.start()
    began = time.monotonic()
    assert node.hook("epilog").returncode == 0
    assert time.monotonic() - began < 2.0
    assert node.status()["undelivered"] == 1

    go_on.set()
    assert service.heard(LogReport)[0].findings
    until(lambda: node.status()["undelivered"] == 0, "an empty outbox")


def test_a_report_is_sent_again_when_the_service_does_not_know_the_jobs_end_yet(node: Node, serve, tmp_path):
    log = tmp_path / "slurm-12.out"
    log.write_text(CAUSE)
    answers = iter([Answer(later=True)])
    wanted = asks_for(log, uid=os.getuid(), gid=os.getgid())
    service = serve(lambda message: next(answers, wanted(message)) if isinstance(message, Report) else Answer())
    node.start()
    node.hook("prolog", "12")

    node.hook("epilog", "12")

    [found] = service.heard(LogReport)
    assert len(service.of(Report)) == 2
    assert not found.unreadable
