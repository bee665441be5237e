"""A check in words: for ``wheeltapper checks`` and for its page in the documentation. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wheeltapper.checks.registry import Chosen

COSTS = {True: "in a child process that is ended after {deadline:g} s", False: "in the agent itself"}


@dataclass(frozen=True, slots=True)
class Limit:
    """A key of ``[checks.limits.NAME]``: its default, its value on this node, and what it means."""

    key: str
    default: Any
    value: Any
    about: str


def limits(chosen: Chosen) -> Iterator[Limit]:
    """Yield the limits of a check in the order of its model."""
    for key, field in type(chosen.limits).model_fields.items():
        default = field.get_default(call_default_factory=True)
        yield Limit(key, default, getattr(chosen.limits, key), field.description or "")


def headline(chosen: Chosen) -> str:
    """Return the question that a check asks: the first paragraph of its docstring, on one line."""
    return " ".join(inspect.cleandoc(chosen.about).partition("\n\n")[0].split())


def contexts(chosen: Chosen) -> list[str]:
    """Return when a check is asked."""
    return sorted(each.value for each in chosen.check.contexts)


def reading(chosen: Chosen) -> str:
    """Return how the check's probe is read, as a sentence without a stop."""
    probe = chosen.check.probe
    how = COSTS[probe.may_hang].format(deadline=probe.deadline_s)
    kept = f"; readings are kept for {probe.keep_s:g} s" if probe.keep_s else ""
    return f"{probe.name}, every {probe.every_s:g} s, {how}{kept}"


def as_record(chosen: Chosen) -> dict[str, Any]:
    """Return everything about a check as JSON values."""
    probe = chosen.check.probe
    return {
        "name": chosen.check.name,
        "asks": headline(chosen),
        "about": inspect.cleandoc(chosen.about),
        "contexts": contexts(chosen),
        "may_take_the_node_out": chosen.may_convict,
        "probe": {
            "name": probe.name,
            "every_s": probe.every_s,
            "deadline_s": probe.deadline_s,
            "may_hang": probe.may_hang,
            "keep_s": probe.keep_s,
        },
        "limits": [
            {"key": each.key, "default": _plain(each.default), "value": _plain(each.value), "about": each.about}
            for each in limits(chosen)
        ],
    }


def as_text(chosen: Chosen) -> str:
    """Return everything about a check for people at a terminal."""
    lines = [
        chosen.check.name,
        "",
        inspect.cleandoc(chosen.about),
        "",
        f"Reads {reading(chosen)}.",
        f"Asked: {', '.join(contexts(chosen))}.",
        "A fault that it finds takes the node out." if chosen.may_convict else "It warns, and takes no node out.",
    ]
    for each in limits(chosen):
        changed = f" (default {_plain(each.default)})" if each.value != each.default else ""
        lines.append(f"  {each.key} = {_plain(each.value)}{changed}: {each.about}")
    return "\n".join([*lines, ""])


def as_page(chosen: Chosen) -> str:
    """Return the page of a check for the documentation, in Markdown."""
    lines = [f"# {chosen.check.name}", "", inspect.cleandoc(chosen.about), ""]
    idle = " Judged while no job is on the node." if chosen.check.of_idle_nodes else ""
    lines += [f"Reads {reading(chosen)}. Asked: {', '.join(contexts(chosen))}.{idle}", ""]
    lines += ["A fault that it finds takes the node out." if chosen.may_convict else "It warns, and takes no node out."]
    told = list(limits(chosen))
    if told:
        lines += ["", f"Limits, in `[checks.limits.{chosen.check.name}]`:", "", "| key | default | meaning |"]
        lines += ["|---|---|---|"]
        lines += [f"| `{each.key}` | `{_plain(each.default)}` | {_cell(each.about)} |" for each in told]
    return "\n".join([*lines, ""])


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | frozenset) else value


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
