"""Which node and which moment a file speaks of: from its name, its headings, and the stamps of its tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timezone
from pathlib import PurePath
from typing import TYPE_CHECKING

from wheeltapper.scan.clock import time_of

if TYPE_CHECKING:
    from wheeltapper.inputs.model import Line

_TOOLS = frozenset(
    {"nvidia", "smi", "q", "device", "plugin", "nvlink", "errors", "ibstat", "ibstatus", "perfquery", "ethtool", "nic"}
    | {"ipmi", "ipmitool", "sel", "bmc", "dmesg", "kern", "kmsg", "console", "journal", "journalctl", "k", "rdma", "df"}
    | {"counters", "cpu", "stat", "memory", "events", "pressure", "psi", "edac", "aer", "dcgmi", "health", "diag"}
    | {"sysfs", "cgroup", "sensors", "numactl", "log", "txt", "out", "json", "csv", "yaml", "node", "host", "pod"}
)
"""Words in a file's name that say what it holds and not where."""

_MOMENTS = frozenset(
    {"before", "after", "idle", "running", "start", "end", "pre", "post", "prolog", "epilog", "first", "last", "now"}
)
"""Words in a file's name that say when it was made."""

_DEVICE = re.compile(r"(?i)^(?:mlx\d|ib\d|eth\d|en[ops]\d|bond\d|rdma\d|hfi\d|bnxt|gpu\d+$|mc\d|csrow|cpu\d|ports?\b)")
_NO_NODE = re.compile(r"(?i)^(?:run|attempt|job|exp|step|rank|case|try|logs?|epoch|version|v|slurm|tmp)-?\d")
_WORD = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]+")
_EXTENSION = re.compile(r"\.(?:txt|log|out|json|ya?ml|csv|md|dat)$")

_HEADING = re.compile(
    r"^\s*(?:[=#*>-]{2,}|#)[\s\[]*(?:(?:host|node|pod)(?:name)?[:= ]\s*)?(?P<node>[A-Za-z][A-Za-z0-9.-]*)(?![\w/])"
)
_GATHERED = re.compile(r"^(?P<node>[A-Za-z][A-Za-z0-9.-]*): ?(?!\.|\d+$|$)")


def node_in_name(name: str) -> str | None:
    """Return the node in a file's *name*, such as ``nvidia-smi-q.n13.txt`` or ``n13/cpu.stat``; None without one."""
    *folders, base = PurePath(name).parts or ("",)
    while _EXTENSION.search(base):
        base = _EXTENSION.sub("", base)
    # Only folders that belong to what was handed over: an absolute path leads through a machine's own.
    for part in (base, *(() if name.startswith("/") else folders)):
        for node in _without_known_words(part).split("."):
            if is_node(node) and not _NO_NODE.match(node):
                return node
    return None


def _without_known_words(text: str) -> str:
    words = _WORD.findall(text)
    while words and (words[0].lower() in _TOOLS or not words[0][0].isalnum()):
        words.pop(0)
    while words and (words[-1].lower() in _MOMENTS | _TOOLS or not words[-1][0].isalnum()):
        words.pop()
    return "".join(words)


def is_node(word: str) -> bool:
    """True when *word* looks like a node's name: letters and a number, and no device of one."""
    return bool(re.match(r"^[A-Za-z][A-Za-z0-9.-]*$", word) and re.search(r"\d", word) and not _DEVICE.match(word))


def moment(text: str) -> float | None:
    """Return the first time in *text*, ISO or as ``date`` prints it; without an offset it counts as UTC."""
    return time_of(text, timezone.utc)


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose and when the lines under a heading are."""

    node: str | None = None
    at: float | None = None


def scoped(lines: Iterable[Line], node: str | None) -> Iterator[tuple[Line, Scope]]:
    """Yield *lines* with what the headings above them tell; a heading's node forgets nothing but the node before.

    Understands ``== n1 …``, ``# n1 2024-02-11T08:02:00Z …`` and the ``n1: `` that pdsh and clush put before lines.
    """
    scope = Scope(node)
    for line in lines:
        at = moment(line.text)
        if at is not None:
            scope = replace(scope, at=at)
        heading = _HEADING.match(line.text)
        if heading and is_node(heading["node"]):
            scope = replace(scope, node=heading["node"].partition(".")[0])
        gathered = _GATHERED.match(line.text)
        if gathered and is_node(gathered["node"]):
            scope = replace(scope, node=gathered["node"].partition(".")[0])
            yield replace(line, text=line.text[gathered.end() :]), scope
        else:
            yield line, scope
