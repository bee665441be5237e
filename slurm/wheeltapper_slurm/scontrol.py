"""The command-line backend: every call is one Slurm command with a deadline, in a session of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from wheeltapper.errors import SchedulerDown, SchedulerError
from wheeltapper_slurm import domains, json_records, records
from wheeltapper_slurm.records import JobRecord, NodeRecord, PastAttempt

# Whoever starts us may have set no search path: slurmctld's own scripts have none.
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin"

_DOWN = (
    # Slurm's own words (its slurm_errno.c), on 22.05, 24.11 and 26.05 the same.
    "Unable to contact slurm controller",
    "Communication connection failure",
    "Communication shutdown failure",
    "Message send failure",
    "Message receive failure",
    "Unexpected missing socket error",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "in standby mode",
    "Unable to connect to database",
    "Munge encode failed",
    # The system's, which Slurm passes on: a slurmctld that is killed in the middle of an answer is one of them.
    "Connection refused",
    "Connection reset by peer",
    "Connection timed out",
    "Broken pipe",
    "Transport endpoint",
    "No route to host",
    "Network is unreachable",
)
"""Pieces of what Slurm's commands print when slurmctld, slurmdbd or MUNGE does not answer. Whoever takes such words for
a refusal gives up what is only to be tried again."""

_NO_JSON = ("unrecognized option", "unknown option", "serializer", "data_parser", "plugin")
"""Pieces of what scontrol prints when it cannot write JSON: 22.05 has no such option, a site may lack the plugin."""

_NO_RECORD = ("Nothing modified", "Data has not changed")
"""Pieces of what sacctmgr prints when no job's record matches: on 22.05 the one, on 24.11 and 26.05 the other."""


def is_down(said: str) -> bool:
    """True when *said*, the words of a Slurm command or of its library, mean that nobody answered."""
    return _has_any(_DOWN, said)


class Scontrol:
    """slurmctld through ``scontrol``, slurmdbd through ``sacctmgr``. *conf* is slurm.conf when it lies elsewhere.

    A job is read from JSON where scontrol writes it (24.11 and 26.05 do), since there no job's name can look like
    another field. Elsewhere its line is read without the name, and a name that is not known is asked for first.
    """

    def __init__(self, conf: Path | None, timeout: float) -> None:
        self._timeout = timeout
        self._has_json = True
        self._environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SEARCH_PATH}"}
        if conf is not None:
            self._environment["SLURM_CONF"] = str(conf)

    async def job(self, job: str, name: str | None = None) -> JobRecord | None:
        try:
            if self._has_json:
                record = json_records.job(await self._run("scontrol", "--json", "show", "job", job), job)
                if record is not None:
                    return record
                # Where nobody answers, scontrol prints an empty list and succeeds (24.11, 26.05), as it does for a job
                # that is gone. In its other form it says which of the two.
            return await self._job_of_text(job, name)
        except SchedulerError as error:
            if "Invalid job id" in str(error):
                return None
            if isinstance(error, SchedulerDown) or not (self._has_json and _has_any(_NO_JSON, str(error))):
                raise
        except ValueError as error:
            raise SchedulerError(f"the record of job {job} cannot be read: {error}") from error
        self._has_json = False
        return await self.job(job, name)

    async def _job_of_text(self, job: str, name: str | None) -> JobRecord | None:
        text = await self._run("scontrol", "show", "job", "-o", job)
        if name is None or not records.fits(text, name):
            said = await self._run("squeue", "--noheader", "--all", "--states=all", "--format=%j", f"--jobs={job}")
            name = said.removesuffix("\n")
        if records.fits(text, name):
            text = records.without_name(text, name)
        elif "UserId=" in name:
            # Of several records at once (a heterogeneous job), and one has a name that looks like fields.
            raise ValueError("its name cannot be told from what follows")
        line = records.pick(text, job)
        return records.job(line) if line is not None else None

    async def node(self, name: str) -> NodeRecord | None:
        try:
            text = await self._run("scontrol", "show", "node", "-o", name)
        except SchedulerError as error:
            if isinstance(error, SchedulerDown) or "not found" not in str(error):
                raise
            return None
        return records.node(text.strip()) if text.startswith("NodeName=") else None

    async def nodes(self) -> list[NodeRecord]:
        text = await self._run("scontrol", "show", "node", "-o")
        return [records.node(line) for line in text.splitlines() if line.startswith("NodeName=")]

    async def topology(self) -> dict[str, frozenset[str]]:
        try:
            text = await self._run("scontrol", "show", "topology")
        except SchedulerError as error:
            # Without a topology plugin some releases print nothing, and some refuse.
            if isinstance(error, SchedulerDown):
                raise
            return {}
        return domains.leaves(text)

    async def drain(self, node: str, reason: str) -> None:
        await self._run("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")

    async def resume(self, node: str) -> None:
        await self._run("scontrol", "update", f"NodeName={node}", "State=RESUME")

    async def reboot(self, node: str, reason: str) -> None:
        await self._run("scontrol", "reboot", f"reason={reason}", node)

    async def requeue(self, job: str) -> None:
        await self._run("scontrol", "requeue", job)

    async def end(self, job: str) -> None:
        # Without --batch, scancel makes of SIGKILL a cancelled job.
        await self._run("scancel", "--batch", "--signal=KILL", job)

    async def cancel(self, job: str) -> None:
        await self._run("scancel", job)

    async def update_job(self, job: str, key: str, value: str) -> None:
        await self._run("scontrol", "update", f"JobId={job}", f"{key}={value}")

    async def annotate_finished(self, job: str, text: str) -> bool:
        try:
            await self._run(
                "sacctmgr", "--immediate", "modify", "job", "where", f"jobid={job}", "set", f"AdminComment={text}"
            )
        except SchedulerError as error:
            # sacctmgr says the same when we may not: both end after a while.
            if isinstance(error, SchedulerDown) or not _has_any(_NO_RECORD, str(error)):
                raise
            return False
        return True

    async def past(self, job: str) -> list[PastAttempt]:
        columns = "--format=State,Start,End"
        try:
            text = await self._run("sacct", "-D", "-X", "-n", "-P", f"--jobs={job}", columns)
        except SchedulerError:
            # sacct asks slurmdbd: that it is not there, or away, must not keep anything else waiting.
            return []
        return records.past(text)

    async def release(self, job: str) -> None:
        await self._run("scontrol", "release", job)

    async def configuration(self) -> dict[str, str]:
        return records.configuration(await self._run("scontrol", "show", "config"))

    async def _run(self, *words: str) -> str:
        process = await self._started(words)
        try:
            output, complaints = await asyncio.wait_for(process.communicate(), self._timeout)
        except asyncio.TimeoutError as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise SchedulerDown(f"{words[0]} {words[1]} did not answer within {self._timeout:g} s") from error
        if process.returncode == 0:
            return output.decode("utf-8", "replace")
        said = " ".join((output + complaints).decode("utf-8", "replace").split())[:300]
        said = said or f"exit code {process.returncode}"
        kind = SchedulerDown if is_down(said) else SchedulerError
        raise kind(f"{' '.join(words[:3])}: {said}")

    async def _started(self, words: tuple[str, ...]) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            # Slurm is being upgraded, or this machine is out of files or memory: it may be better the next time.
            raise SchedulerDown(f"{words[0]} cannot be started: {error.strerror}") from error


def _has_any(pieces: tuple[str, ...], said: str) -> bool:
    return any(piece in said for piece in pieces)
