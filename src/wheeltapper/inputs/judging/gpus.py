"""What the state of GPUs at one moment says: slowed down by heat or by power, on a narrow link, in want of a reset."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wheeltapper import gpu_state
from wheeltapper.evidence import Evidence, Finding, Role
from wheeltapper.gpu_state import BUSY_PERCENT, Meaning, is_hot, is_slow
from wheeltapper.inputs.model import Document, Line, Rule
from wheeltapper.inputs.naming import Scope


def _rule(signature: str, meaning: Meaning) -> Rule:
    return Rule(signature, meaning.label, meaning.summary, Role.ROOT, meaning.disposition)


LOST = _rule("gpu.lost", gpu_state.LOST)
HOT = _rule("gpu.thermal", gpu_state.HOT)
WARM = _rule("gpu.thermal_hint", gpu_state.WARM)
BRAKED = _rule("gpu.power_brake", gpu_state.BRAKED)
BRAKE = _rule("gpu.power_brake_hint", gpu_state.BRAKE)
NARROW = _rule("gpu.link_width", gpu_state.NARROW)
SLOW = _rule("gpu.link_generation", gpu_state.SLOW)
REMAP_FAILED = _rule("gpu.remap_failed", gpu_state.REMAP_FAILED)
REMAP_PENDING = _rule("gpu.remap_pending", gpu_state.REMAP_PENDING)
UNCORRECTED = _rule("gpu.ecc", gpu_state.UNCORRECTED)


@dataclass(frozen=True, slots=True)
class Value:
    """A printed value and its line."""

    text: str
    line: Line


@dataclass(frozen=True)
class Gpu:
    """One GPU at one moment; ``values`` are keyed by ``section/name`` in lower case."""

    document: Document
    address: str | None
    scope: Scope
    values: dict[str, Value]

    def seen(self, value: Value, *, stands: bool = False) -> Evidence:
        """Return the line of *value* as evidence of this GPU; what *stands* was so before and has no moment."""
        at = None if stands else self.scope.at
        return self.document.seen(value.line, node=self.scope.node, at=at, gpu=self.address)

    def number(self, *names: str) -> float | None:
        """Return the first number among the values called *names*."""
        for name in names:
            found = re.match(r"-?\d+(?:\.\d+)?", self.values[name].text) if name in self.values else None
            if found:
                return float(found[0])
        return None

    def is_active(self, name: str) -> Value | None:
        """Return the value called *name* when it says that something is on."""
        value = self.values.get(name)
        return value if value and value.text.lower() in {"active", "yes"} else None


def judge(gpus: Sequence[Gpu]) -> list[Finding]:
    """Return what the states of *gpus* say. A link is held against those of the same node at the same time."""
    together: dict[tuple[str, str | None], list[Gpu]] = {}
    for each in gpus:
        together.setdefault((each.document.name, each.scope.node), []).append(each)
    found: list[Finding] = []
    for peers in together.values():
        wide = any(_is_at_best(each, "link width") for each in peers)
        fast = any(_is_at_best(each, "pcie generation") for each in peers if _is_busy(each))
        for each in peers:
            found += [*_slowed(each), *_memory(each), *_link(each, others_wide=wide, others_fast=fast)]
    return found


def _slowed(gpu: Gpu) -> list[Finding]:
    found = []
    if heat := gpu.is_active("hw thermal slowdown"):
        rule = HOT if _is_hot(gpu) else WARM
        degrees = gpu.number("temperature/gpu current temp")
        found.append(rule.of(gpu.seen(heat), detail=f"temperature={degrees:.0f}C" if degrees is not None else ""))
    if brake := gpu.is_active("hw power brake slowdown"):
        found.append((BRAKED if _is_slow(gpu) else BRAKE).of(gpu.seen(brake)))
    return found


def _is_hot(gpu: Gpu) -> bool:
    return is_hot(
        gpu.number("temperature/gpu current temp"),
        slowdown_at=gpu.number("temperature/gpu slowdown temp"),
        left=gpu.number("temperature/gpu t.limit temp"),
    )


def _is_slow(gpu: Gpu) -> bool:
    return is_slow(gpu.number("clocks/sm", "clocks/graphics"), gpu.number("max clocks/sm", "max clocks/graphics"))


def _memory(gpu: Gpu) -> list[Finding]:
    for name, rule in (
        ("remapped rows/remapping failure occurred", REMAP_FAILED),
        ("remapped rows/pending", REMAP_PENDING),
        ("retired pages/pending", REMAP_PENDING),
        ("retired pages/pending page blacklist", REMAP_PENDING),
    ):
        if said := gpu.is_active(name):
            return [rule.of(gpu.seen(said, stands=True))]
    counts: Mapping[str, Value] = {
        name: value
        for name, value in gpu.values.items()
        if name.startswith("volatile/") and "uncorrectable" in name and re.match(r"[1-9]", value.text)
    }
    return [
        UNCORRECTED.of(gpu.seen(value, stands=True), detail=f"count={value.text}")
        for value in list(counts.values())[:1]
    ]


def _link(gpu: Gpu, *, others_wide: bool, others_fast: bool) -> list[Finding]:
    """Return a link that is narrower, or under load slower, than it could be while other GPUs' links are not."""
    found = []
    if others_wide and _is_below(gpu, "link width"):
        width = gpu.seen(gpu.values["link width/current"], stands=True)
        found.append(NARROW.of(width, detail=_of(gpu, "link width", "width")))
    if others_fast and _is_busy(gpu) and _is_below(gpu, "pcie generation"):
        generation = gpu.seen(gpu.values["pcie generation/current"])
        found.append(SLOW.of(generation, detail=_of(gpu, "pcie generation", "generation")))
    return found


def _of(gpu: Gpu, name: str, word: str) -> str:
    return f"{word}={gpu.number(f'{name}/current'):.0f}/{gpu.number(f'{name}/max'):.0f}"


def _is_below(gpu: Gpu, name: str) -> bool:
    now, best = gpu.number(f"{name}/current"), gpu.number(f"{name}/max")
    return now is not None and best is not None and now < best


def _is_at_best(gpu: Gpu, name: str) -> bool:
    now, best = gpu.number(f"{name}/current"), gpu.number(f"{name}/max")
    return now is not None and now == best


def _is_busy(gpu: Gpu) -> bool:
    return (gpu.number("utilization/gpu") or 0) >= BUSY_PERCENT
