"""The controller service without its socket, on a spool folder, a journal and a ledger of its own."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from tests.unit.make import BOOT, xid79
from tests.unit.slurm.fake import FakeSlurm, job, node
from tests.unit.slurm.test_names import raw
from wheeltapper import config
from wheeltapper.ledger.store import Ledger
from wheeltapper.verdict import State
from wheeltapper.wire import Health, JobStay, LogReport, Report
from wheeltapper_slurm.arrivals import Arrivals
from wheeltapper_slurm.healths import Healths
from wheeltapper_slurm.inbox import Inbox
from wheeltapper_slurm.journal import Journal
from wheeltapper_slurm.lasting import Lasting
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.quarantine import Gate
from wheeltapper_slurm.rounds import Rounds

ENDED = 1100.0
PLAIN = {"SLURM_ARRAY_JOB_ID": None, "SLURM_ARRAY_TASK_ID": None}


class Desk:
    """The service without its socket, and with a clock that the test sets."""

    def __init__(self, folder, slurm, mode="full"):
        text = f"[policy]\nmode = '{mode}'\n[controller]\nspool_dir = '{folder}/spool'\n[ledger]\npath = '{folder}/ledger.db'\n"
        settings = config.parse(text)
        self.now = ENDED + 0.5
        self.slurm = slurm
        self.spool = folder / "spool" / "ended"
        self.ledger = Ledger(settings.ledger.path)
        self.journal = Journal(settings.controller.spool_dir / "journal.db")
        lasting = Lasting(slurm, self.journal, lambda: self.now)
        gate = Gate(slurm, self.ledger, settings.policy, lasting, lambda: self.now)
        self.healths = Healths(120.0)
        self.parts = Parts(settings, slurm, self.ledger, self.journal, gate, Arrivals(), self.healths, lambda: self.now)
        self.rounds, self.inbox = Rounds(self.parts), Inbox(self.parts)

    def ended(self, name="14.1", at=ENDED, **env):
        path = self.spool / name
        path.write_bytes(raw(**{**PLAIN, **env}))
        os.utime(path, (at, at))

    def hear(self, message):
        return asyncio.run(self.inbox.hear(message))

    def reports(self, *findings, logs=()):
        """Both nodes' accounts, and what the batch host found in the logs."""
        stay = JobStay("14", 901.0, ENDED + 0.2)
        own = {name: tuple(each for each in findings if each.evidence.node == name) for name in ("n1", "n2")}
        for name, found in own.items():
            self.journal.receive(Report(name, BOOT, stay, found), self.now)
        self.journal.receive(LogReport("n1", stay, tuple(logs)), self.now)

    def round(self):
        asyncio.run(self.rounds.once())

    def told(self):
        return list(self.ledger.interruptions())

    def close(self):
        self.ledger.close()
        self.journal.close()


def cluster(**changes):
    """Two nodes, and job 14 that failed on both."""
    return FakeSlurm(node("n1"), node("n2"), jobs=(job(id="14", **changes),))


def moved(at):
    """Let job 14 hang on a GPU that its node proves to be lost, until it is ended and decided on."""
    stay = JobStay("14", 901.0, None, ("0000:3b:00",))
    at.hear(Health("n2", BOOT, State.FAIL, 1.0, (xid79(at=1000.0),), (stay,)))
    at.round()
    at.now += at.parts.config.policy.move_after_s
    at.round()
    assert at.slurm.asked == [("end", "14")]
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="FAILED", signal=9)
    at.ended(SLURM_JOB_EXIT_CODE2="0:9")
    at.reports(xid79(at=1000.0))
    at.round()
