"""Counters of ports, links, memory controllers and cgroups, in the forms in which people save them.

perfquery, ``ethtool -S``, ``nvidia-smi nvlink -e``, cgroup files, and files of sysfs: as they are, as ``grep -r .`` or
``tail -n +1`` print them, for one node or for many under headings. A counter says nothing alone: see ``judging/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from wheeltapper.catalogue import Catalogue
from wheeltapper.inputs.model import Document, Reader, Reading, Sample
from wheeltapper.inputs.naming import scoped

_PERFQUERY_PORT = re.compile(r"# Port (?:extended )?counters: Lid (?P<lid>\d+) port (?P<port>\d+)")
_PERFQUERY = re.compile(r"^(?P<name>[A-Z]\w+):\.*(?P<value>\d+)$")
_ETHTOOL_DEVICE = re.compile(r"\bethtool (?:-S|--statistics) (?P<device>\S+)")
_ETHTOOL = re.compile(r"^(?P<name>[a-z][\w.\[\]]+): (?P<value>\d+)$")
_EDAC_UTIL = re.compile(r"^(?P<device>mc\d+: (?:\S+: )*)(?P<value>\d+) (?P<name>Un)?[Cc]orrected Errors")
_NVLINK_GPU = re.compile(r"^GPU (?P<index>\d+): .*?(?:\(UUID: (?P<uuid>GPU-[\w-]+)\))?$")
_NVLINK = re.compile(r"^Link (?P<link>\d+): (?P<name>(?:Replay|Recovery|CRC)(?: FLIT| Data)? Errors?): (?P<value>\d+)$")
_PATH_HEADING = re.compile(r"(?:^|\s)(?P<path>/?(?:[\w.:-]+/)+[\w.:-]+)(?: <==)?$")
_PATH_VALUE = re.compile(r"^(?P<path>/?(?:[\w.:-]+/)+[\w.:-]+?)(?:: ?| = | )(?P<rest>(?:[A-Za-z_]+ )?\d+)$")
_NAMED = re.compile(r"^(?P<name>[A-Za-z_]+) (?P<value>\d+)$")

_PORT = re.compile(r"infiniband/(?P<device>[\w.]+)/ports/(?P<port>\d+)/(?:hw_)?counters/(?P<name>\w+)$")
_NET = re.compile(r"net/(?P<device>[\w.-]+)/(?:statistics/)?(?P<name>\w+)$")
_EDAC = re.compile(r"edac/mc/(?P<device>mc\d+(?:/\w+)*?)/(?P<name>(?:ce|ue)(?:_noinfo)?_count)$")
_AER = re.compile(r"(?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)/aer_dev_(?P<name>correctable|nonfatal|fatal)$")
_CGROUP = re.compile(r"(?P<device>.*?)(?P<name>cpu\.stat|memory\.events(?:\.local)?|memory\.oom_control|pids\.events)$")
_CGROUP_NAMES = {
    "cpu.stat": {"nr_periods", "nr_throttled", "throttled_usec", "throttled_time"},
    "memory.events": {"oom_kill"},
    "memory.oom_control": {"oom_kill"},
    "pids.events": {"max"},
}

_OURS = re.compile(
    r"^# Port (?:extended )?counters: Lid|^NIC statistics:|^\s+Link \d+: (?:Replay|Recovery|CRC)|^nr_throttled \d+$"
    r"|^oom_kill \d+$|^mc\d+: .*orrected Errors|infiniband/[\w.]+/ports/\d+/(?:hw_)?counters/\w+[: =]"
    r"|edac/mc/mc\d+\S*_count[: =]|/aer_dev_\w+[: ]",
    re.MULTILINE,
)
_NUMBER = re.compile(r"^\s*(?:0x[0-9a-f]+|\d+)\s*$")


def _recognises(document: Document) -> bool:
    if _OURS.search(document.head):
        return True
    known = _counter_of(document.name)
    return known is not None and (known[0] in {"aer", "cgroup"} or bool(_NUMBER.match(document.head)))


@dataclass
class _Where:
    """The device and the file that the lines being read are of."""

    path: str
    device: str = ""


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    where = _Where(document.name)
    samples = []
    for line, scope in scoped(document.lines, document.node):
        text = line.text.strip()
        for kind, device, name, value in _counters(text, where):
            seen = document.seen(line, text=text, node=scope.node, at=scope.at)
            samples.append(Sample(kind, device, name, value, seen))
    return Reading(samples=tuple(samples))


_Counter = tuple[str, str, str, int]
"""Kind, device, name and value."""


def _counters(text: str, where: _Where) -> Iterator[_Counter]:
    if _move(text, where):
        return
    if found := _PERFQUERY.match(text):
        yield "port", where.device, _snake(found["name"]), int(found["value"])
    elif found := _NVLINK.match(text):
        name = found["name"].split()[0].lower()
        yield "nvlink", f"{where.device} link {found['link']}", name, int(found["value"])
    elif found := _EDAC_UTIL.match(text):
        yield "edac", found["device"].rstrip(": "), "ue_count" if found["name"] else "ce_count", int(found["value"])
    elif found := _PATH_VALUE.match(text):
        yield from _in_file(found["path"], found["rest"])
    elif found := _ETHTOOL.match(text):
        yield "nic", where.device, found["name"], int(found["value"])
    else:
        yield from _in_file(where.path, text)


def _move(text: str, where: _Where) -> bool:
    """Note what a heading says; True when *text* is one."""
    if found := _PERFQUERY_PORT.search(text):
        where.device = f"lid {found['lid']} port {found['port']}"
    elif found := _ETHTOOL_DEVICE.search(text):
        where.device = found["device"]
    elif found := _NVLINK_GPU.match(text):
        where.device = found["uuid"] or f"GPU {found['index']}"
    elif text.startswith(("==>", "#")) and (found := _PATH_HEADING.search(text)):
        where.path = found["path"]
    else:
        return text.startswith(("#", "=="))
    return True


def _in_file(path: str, text: str) -> Iterator[_Counter]:
    """Yield the counter that the line *text* of the file at *path* holds."""
    known = _counter_of(path)
    named = _NAMED.match(text)
    if known is None:
        # A cgroup file under another name: its keys are known all the same.
        if named and (named["name"] in _CGROUP_NAMES["cpu.stat"] or named["name"] == "oom_kill"):
            yield "cgroup", "", named["name"], int(named["value"])
        return
    kind, device, name = known
    if kind == "cgroup":
        if named and named["name"] in _CGROUP_NAMES.get(name.removesuffix(".local"), ()):
            yield kind, device, named["name"] if name != "pids.events" else "pids_max", int(named["value"])
    elif kind == "aer":
        if named and named["name"].startswith("TOTAL_ERR"):
            yield kind, device, name, int(named["value"])
    elif _NUMBER.match(text):
        yield kind, device, name, int(text, 0)


def _counter_of(path: str) -> tuple[str, str, str] | None:
    """Return kind, device and name of the counter in the file at *path*; a cgroup file's name stands for several."""
    for kind, form in (("port", _PORT), ("nic", _NET), ("edac", _EDAC), ("aer", _AER)):
        if found := form.search(path):
            port = f" port {found['port']}" if kind == "port" else ""
            return kind, found["device"] + port, found["name"]
    found = _CGROUP.search(PurePath(path).as_posix())
    return ("cgroup", found["device"].rstrip("/"), found["name"]) if found else None


def _snake(name: str) -> str:
    """Return perfquery's *name* as sysfs writes it: ``SymbolErrorCounter`` is ``symbol_error``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removesuffix("Counter")).lower()


READER = Reader(_recognises, _read)
