"""What slurmctld says about a job or a node, and the lenient reading of ``scontrol show … -o``.

A user chooses a job's name, and a name may hold spaces and equals signs. Keys that we act on all come before any
other text of the user's, so the name is taken out first, what follows them is not looked at, and then the first
appearance of a key counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from wheeltapper_slurm import hostlist

_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z0-9_:/&]*)=")
# Free text that we write back: it holds log lines, and those hold words such as OpType=, so it ends at what Slurm
# itself prints next.
_COMMENT = re.compile(r" AdminComment=(.*?)(?= (?:SystemComment|Comment|StdErr|Power)=|$)", re.DOTALL)
_USERS_COMMENT = re.compile(r" Comment=(.*?)(?= StdErr=|$)", re.DOTALL)
# 26.05 prints the whole command line of sbatch, which may hold any of these words.
_SUBMITTED = re.compile(r" SubmitLine=.*?(?= WorkDir=)", re.DOTALL)
# What we act on, on 22.05, 24.11 and 26.05 alike; a pending job has no BatchHost, and nobody may lend it one.
_OURS = re.compile(r".*? JobState=.*?(?= NumCPUs=|$)", re.DOTALL)
# On 24.11 and 26.05, programs of which there may be several are numbered: Epilog[0], Epilog[1].
_NUMBERED = re.compile(r"\[\d+\]$")
# What may stand before the name; nothing in it is the user's.
_HEAD = r"JobId=\d+(?: (?:Array|Het)\w+=\S+)*"
_NAME = re.compile(r" JobName=.*? (?=UserId=)", re.DOTALL)
_SIGNED = re.compile(r"\s*\[[^\]\[]*@\d{4}-\d\d-\d\dT[\d:]+\]$")
# What slurmctld itself adds to a reason while it reboots the node, and on 24.11 and 26.05 when a node has not answered
# for SlurmdTimeout; whose reason it is does not change by that.
_ADDED = re.compile(r"(?: : (?:reboot (?:requested|issued|complete|timed out)|Not responding))+$")
# ``gpu:2`` or ``gpu:h100:8(S:0-1)``, of which there may be several.
_GPUS = re.compile(r"(?:^|,)gpu(?::[^,:()]+)?:(\d+)")
_UNSET = {"", "(null)", "N/A", "None", "Unknown", "n/a"}


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as slurmctld has it now. Times are Unix seconds; ``start`` is of the attempt that it shows.

    ``nodes`` is how many it has or wants at least; ``array`` is ``12_3`` for a task of an array; ``expedited`` says
    that Slurm itself requeues it at once when an epilog fails (25.11); ``uid`` is the user's number; ``node_list`` is
    where it runs or ran, compressed; ``ended_as`` is what it will be when it no more completes, where Slurm tells;
    ``comment`` is the user's own.
    """

    id: str
    state: str
    reason: str
    exit_code: int
    signal: int
    start: float | None
    end: float | None
    batch: bool
    requeueable: bool
    restarts: int
    batch_host: str | None
    priority: int
    excluded: tuple[str, ...]
    admin_comment: str
    nodes: int = 1
    array: str = ""
    het_leader: str = ""
    partitions: tuple[str, ...] = ()
    expedited: bool = False
    uid: int | None = None
    node_list: str = ""
    ended_as: str = ""
    comment: str = ""

    @property
    def target(self) -> str:
        """What actions must name: never an array's master id, which one task bears too, and of a het job its leader."""
        return self.het_leader or self.array or self.id

    @property
    def hosts(self) -> frozenset[str]:
        """The nodes that it runs or ran on."""
        return frozenset(hostlist.expand(self.node_list))

    @property
    def completing(self) -> bool:
        """True while an epilog of the attempt still runs."""
        return self.state == "COMPLETING"

    @property
    def active(self) -> bool:
        """True while an attempt has nodes, whether or not it computes on them."""
        return self.state in {"RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"}

    @property
    def waiting(self) -> bool:
        """True when Slurm will run the job again, held or not."""
        return self.state in {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "EXPEDITING"}

    @property
    def held(self) -> bool:
        """True when nobody but an administrator (or we) can let the job run."""
        return self.waiting and self.priority == 0


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """An attempt that is over, as slurmdbd has it. Times are Unix seconds."""

    state: str
    start: float | None
    end: float


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node as slurmctld has it now. ``states`` holds the base state and its flags in capitals.

    ``hosts`` are the names or addresses by which slurmctld reaches it; ``gpus`` is how many it has to hand out.
    """

    name: str
    states: frozenset[str]
    reason: str
    partitions: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    gpus: int = 0

    @property
    def out(self) -> bool:
        """True when Slurm starts nothing new on the node."""
        return bool(self.states & {"DRAIN", "DRAINING", "DRAINED", "DOWN", "FAIL", "FAILING", "FUTURE"})

    @property
    def idle(self) -> bool:
        """True when no job has any of it."""
        return "IDLE" in self.states

    @property
    def drained(self) -> bool:
        """True when somebody drained it, a person or we."""
        return bool(self.states & {"DRAIN", "DRAINING", "DRAINED"})

    @property
    def rebooting(self) -> bool:
        """True when a reboot through Slurm was asked for and is not over."""
        return bool(self.states & {"REBOOT", "REBOOT_REQUESTED", "REBOOT_ISSUED"})

    @property
    def silent(self) -> bool:
        """True when no report can be expected from it."""
        return bool(self.states & {"DOWN", "NOT_RESPONDING", "POWERED_DOWN", "POWERING_DOWN"})


def fields(line: str) -> dict[str, str]:
    """Return the ``key=value`` pairs of one record; a value reaches to the next key, the first of equal keys counts."""
    found = list(_KEY.finditer(line))
    if not found:
        return {}
    pairs: dict[str, str] = {}
    for this, following in zip(found, [*found[1:], None], strict=True):
        value = line[this.end() : following.start() if following else len(line)]
        pairs.setdefault(this.group(1), value.strip())
    return pairs


def job(line: str, name: str | None = None) -> JobRecord:
    """Return the job in one line of ``scontrol show job -o``; *name* is its name where we know it.

    Raises:
        ValueError: the line holds no job.
    """
    ours = _OURS.match(_without_name(line, name))
    pairs = fields(ours.group()) if ours else {}
    if "JobId" not in pairs or "JobState" not in pairs:
        raise ValueError(f"this is no job record: {line[:80]!r}")
    comments = _SUBMITTED.sub("", line, count=1)
    comment, users_comment = _COMMENT.search(comments), _USERS_COMMENT.search(_COMMENT.sub("", comments, count=1))
    found = pairs["JobState"].replace("+", ",").split(",")
    task = pairs.get("ArrayTaskId", "")
    code, _, signal = pairs.get("ExitCode", "0:0").partition(":")
    return JobRecord(
        id=pairs["JobId"],
        # While its epilogs run, some releases name the state that follows first.
        state="COMPLETING" if "COMPLETING" in found else found[0],
        reason=_text(pairs.get("Reason", "")),
        exit_code=_number(code),
        signal=_number(signal),
        start=_time(pairs.get("StartTime", "")),
        end=_time(pairs.get("EndTime", "")),
        batch=pairs.get("BatchFlag", "0") != "0",
        requeueable=pairs.get("Requeue", "0") != "0",
        restarts=_number(pairs.get("Restarts", "0")),
        batch_host=_text(pairs.get("BatchHost", "")) or None,
        priority=_number(pairs.get("Priority", "1")),
        excluded=hostlist.expand(_text(pairs.get("ExcNodeList", ""))),
        nodes=_number(pairs.get("NumNodes", "1").partition("-")[0]),
        array=f"{pairs.get('ArrayJobId', '')}_{task}" if task.isdigit() else "",
        het_leader=_text(pairs.get("HetJobId", "")),
        partitions=tuple(filter(None, _text(pairs.get("Partition", "")).split(","))),
        expedited="EXPEDITING" in found or line.rstrip().endswith(" ExpeditedRequeue=Yes"),
        uid=_uid(pairs.get("UserId", "")),
        node_list=_text(pairs.get("NodeList", "")),
        admin_comment=_text(comment.group(1).strip()) if comment else "",
        comment=_text(users_comment.group(1).strip()) if users_comment else "",
    )


def fits(text: str, name: str) -> bool:
    """True when *name* is the job's name in the record that *text* begins with: it stands where the name must stand."""
    return re.match(_HEAD + re.escape(f" JobName={name} UserId="), text) is not None


def without_name(text: str, name: str) -> str:
    """Return *text*, one record or several of the same job, without *name*, which may hold anything, even line ends."""
    return text.replace(f" JobName={name} UserId=", " JobName= UserId=")


def pick(text: str, job: str) -> str | None:
    """Return the line of *job* in what ``scontrol show job -o`` prints; None when it prints no job.

    Asked for an array's master id, scontrol shows every task, and the task that bears that number need not come first.
    """
    lines = [line for line in text.split("\n") if line.startswith("JobId=")]
    exact = [line for line in lines if line.startswith(f"JobId={job} ")]
    return next(iter([*exact, *lines]), None)


def past(text: str) -> list[PastAttempt]:
    """Return the attempts that are over in what ``sacct -D -X -n -P --format=State,Start,End`` prints."""
    found = []
    for line in text.splitlines():
        words = line.split("|")
        end = _time(words[2]) if len(words) == 3 else None
        if end is not None:
            # "CANCELLED by 1000" is one state.
            found.append(PastAttempt(words[0].split(" ")[0], _time(words[1]), end))
    return found


def _without_name(line: str, name: str | None) -> str:
    if name is not None and fits(line, name):
        return line.replace(f" JobName={name} ", " ", 1)
    return _NAME.sub(" ", line, count=1)


def states(text: str) -> frozenset[str]:
    """Return the base state and the flags in a node's state as Slurm writes it: ``IDLE+DRAIN*``."""
    marks = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "%": "POWERING_DOWN"}
    flags = frozenset(flag for mark, flag in marks.items() if mark in text)
    return (frozenset(re.split(r"[+*~#!%$@^-]+", text.upper())) - {""}) | flags


def own_reason(text: str) -> str:
    """Return a node's reason without who set it when, and without what slurmctld adds when the node is away."""
    return _ADDED.sub("", _SIGNED.sub("", _text(text)))


def node(line: str) -> NodeRecord:
    """Return the node in one line of ``scontrol show node -o``.

    Raises:
        ValueError: the line holds no node.
    """
    pairs = fields(line)
    if "NodeName" not in pairs or "State" not in pairs:
        raise ValueError(f"this is no node record: {line[:80]!r}")
    return NodeRecord(
        name=pairs["NodeName"],
        states=states(pairs["State"]),
        reason=own_reason(pairs.get("Reason", "")),
        partitions=tuple(part for part in _text(pairs.get("Partitions", "")).split(",") if part),
        hosts=tuple(filter(None, dict.fromkeys(_text(pairs.get(key, "")) for key in ("NodeAddr", "NodeHostName")))),
        gpus=sum(int(count) for count in _GPUS.findall(pairs.get("Gres", ""))),
    )


def configuration(text: str) -> dict[str, str]:
    """Return what ``scontrol show config`` prints; the values of a numbered key are joined under its plain name."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            found.setdefault(_NUMBERED.sub("", key.strip()), []).append(value.strip())
    return {key: ",".join(values) for key, values in found.items()}


def _text(value: str) -> str:
    return "" if value in _UNSET else value


def _uid(user: str) -> int | None:
    """Return the number in ``ada(1000)``; what stands before it may itself hold brackets."""
    number = user.rpartition("(")[2].rstrip(")")
    return int(number) if number.isdigit() else None


def _number(value: str) -> int:
    try:
        return int(value)
    except ValueError:
        return 0


def _time(value: str) -> float | None:
    try:
        return datetime.strptime(value, "%Y-%m-%dT%H:%M:%S").astimezone().timestamp()
    except ValueError:
        return None
