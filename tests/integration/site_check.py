"""A site's own check that a file drives, so that a test says what it finds: its words are in ``told`` beside it."""

from __future__ import annotations

from pathlib import Path

SOURCE = '''
"""Is the wheel whole?

It finds what the file ``told`` says: nothing for "whole", a warning for "worn", a fault for "cracked". It cannot be
read for "dark", hangs for "stuck", is not there for "absent" and has a bug for "bug".
"""

import os
import signal
from pathlib import Path

from wheeltapper.checks.model import Check, Context, Fault, NotApplicable, Probe
from wheeltapper.config import Section
from wheeltapper.evidence import Disposition
from pydantic import Field

FOLDER = Path({folder!r})
CRACKED = Fault({name!r}, "hardware/power", "the wheel is cracked", Disposition.REPLACE)
WORN = Fault({name!r}, "hardware/thermal", "the wheel is worn")


class Limits(Section):
    worn_percent: float = Field(50.0, description="Percent from which it is worn; our own choice.", strict=False)


def read(host):
    with (FOLDER / "reads").open("a") as log:
        log.write(f"{{os.getpid()}}\\n")
    told, *number = (FOLDER / "told").read_text().split()
    if told == "stuck":
        signal.pause()
    if told == "absent":
        raise NotApplicable("this node has no wheel")
    if told == "dark":
        raise OSError("it is dark")
    if told == "bug":
        raise KeyError("spoke")
    return told, float(number[0]) if number else 0.0


def judge(readings, host, limits):
    now = readings[-1]
    told, percent = now.value
    if told == "cracked":
        yield CRACKED.seen(host, now.at, "the wheel has a crack", detail="wheel=3")
    if told == "worn" and percent >= limits.worn_percent:
        yield WORN.seen(host, now.at, f"the wheel is worn by {{percent:g}} %", detail=f"worn={{percent:g}}%", **{more!r})


CHECK = Check({name!r}, Probe({name!r}, read, every_s={every_s}, deadline_s={deadline_s}, may_hang={may_hang}), judge, Limits{options})
'''


class SiteCheck:
    """The check *name* in *folder*, which an agent is told to load."""

    def __init__(
        self,
        folder: Path,
        name: str = "wheel",
        *,
        may_hang: bool = False,
        every_s: float = 0.05,
        deadline_s: float = 5.0,
        options: str = "",
        **more: str,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.name = name
        source = SOURCE.format(
            folder=str(folder),
            name=name,
            may_hang=may_hang,
            every_s=every_s,
            deadline_s=deadline_s,
            options=f", {options}" if options else "",
            more=more,
        )
        (folder / f"{name}.py").write_text(source)
        self.tell("whole")

    def tell(self, told: str) -> None:
        """Let the next read find *told*."""
        new = self.folder / ".told"
        new.write_text(told)
        new.replace(self.folder / "told")

    @property
    def reads(self) -> int:
        """How often it was read."""
        path = self.folder / "reads"
        return len(path.read_text().splitlines()) if path.exists() else 0
