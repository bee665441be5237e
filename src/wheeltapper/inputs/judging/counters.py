"""What counters say that were read twice. Only growth counts: links train with errors, and old ones stay in a counter.

Thresholds are those of public health checkers; each names its source.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from wheeltapper import gpu_state
from wheeltapper.evidence import Disposition, Evidence, Finding, Role
from wheeltapper.inputs.model import Rule, Sample

HOUR_S = 3600.0

LINK_ERRORS = Rule("counters.link_errors", "network/link_errors", "a port gained errors during the job")
LINK_DOWN = Rule("counters.link_down", "network/link_down", "a link went down during the job")
NVLINK = Rule("counters.nvlink", gpu_state.NVLINK.label, gpu_state.NVLINK.summary)
MEMORY = Rule(
    "counters.memory_ue", "hardware/host_memory", "host memory had an uncorrectable error", Role.ROOT,
    Disposition.INSPECT,
)  # fmt: skip
PCIE = Rule("counters.pcie_fatal", "hardware/pcie", "a PCIe device had a fatal error", Role.ROOT, Disposition.INSPECT)
MEMORY_OLD = Rule(
    "counters.memory_ue_hint", "hardware/host_memory", "host memory had an uncorrectable error since the node's boot"
)
MEMORY_CE = Rule(
    "counters.memory_ce", "hardware/host_memory", "host memory corrected errors during the job", Role.CONFIRM
)


@dataclass(frozen=True, slots=True)
class Growth:
    """A counter that was seen at least twice, and by how much it grew in how many seconds (None when not known)."""

    last: Sample
    delta: int
    seconds: float | None

    def seen(self, note: str = "") -> Evidence:
        """Return the last sample as evidence. It has no moment: what it counts happened at any time since the first."""
        seen = self.last.seen
        return replace(seen, text=f"{seen.text} (+{self.delta}{note})", at=None)

    def per_hour(self) -> float:
        """Return the growth per hour; over an unknown time the growth itself."""
        return per_hour(self.delta, self.seconds or 0.0)


def per_hour(delta: int, seconds: float) -> float:
    """Return the growth per hour; over less than an hour the growth itself, lest a burst make a rate."""
    return delta / max(1.0, seconds / HOUR_S)


@dataclass(frozen=True, slots=True)
class Watch:
    """From which growth on a counter speaks: more than ``total`` at all, or more than ``hourly`` per hour."""

    rule: Rule
    hourly: float = 0.0


WATCHED: Mapping[tuple[str, str], Watch] = {
    # 120 symbol errors an hour are the bit-error budget of InfiniBand, 1e-12 (IBTA; NVIDIA NVSentinel).
    ("port", "symbol_error"): Watch(LINK_ERRORS, 120),
    ("port", "link_error_recovery"): Watch(LINK_ERRORS, 300),  # NVSentinel: five a minute
    ("port", "port_rcv_errors"): Watch(LINK_ERRORS, 36_000),  # NVSentinel: ten a second
    ("port", "local_link_integrity"): Watch(LINK_ERRORS),  # NVSentinel: any
    ("port", "local_link_integrity_errors"): Watch(LINK_ERRORS),
    ("port", "excessive_buffer_overrun_errors"): Watch(LINK_ERRORS),  # NVSentinel: any
    ("port", "link_downed"): Watch(LINK_DOWN),  # NVSentinel, nvidia-resiliency-ext: any
    ("nic", "link_down_events_phy"): Watch(LINK_DOWN),
    # The same budget for Ethernet, whose drivers count after error correction.
    ("nic", "rx_crc_errors_phy"): Watch(LINK_ERRORS, 120),
    ("nic", "rx_symbol_err_phy"): Watch(LINK_ERRORS, 120),
    ("nic", "rx_pcs_symbol_err_phy"): Watch(LINK_ERRORS, 120),
    ("nic", "module_bus_stuck"): Watch(LINK_DOWN),
    ("nic", "module_bad_shorted"): Watch(LINK_DOWN),
    ("nic", "carrier_changes"): Watch(LINK_DOWN, 2),
    ("nvlink", "recovery"): Watch(NVLINK),  # gpud: any
    ("nvlink", "crc"): Watch(NVLINK, gpu_state.NVLINK_CRC_PER_HOUR),
    ("edac", "ue_count"): Watch(MEMORY),
    ("edac", "ue_noinfo_count"): Watch(MEMORY),
    ("edac", "ce_count"): Watch(MEMORY_CE),
    ("aer", "fatal"): Watch(PCIE),
}

_LATER = re.compile(r"(?:^|[/._-])(?:after|post|end|last|now|epilog)(?:[/._-]|$)")


def growths(samples: Iterable[Sample]) -> list[Growth]:
    """Return how each counter grew from its first sample to its last. A value below the first is one since a reset."""
    series: dict[tuple[str, str | None, str, str], list[Sample]] = {}
    for each in samples:
        series.setdefault((each.kind, each.seen.node, each.device, each.name), []).append(each)
    result = []
    for same in series.values():
        first, last = min(same, key=_moment), max(same, key=_moment)
        if _moment(first) == _moment(last):
            continue
        delta = last.value - first.value if last.value >= first.value else last.value
        known = first.seen.at is not None and last.seen.at is not None
        seconds = last.seen.at - first.seen.at if known else None  # type: ignore[operator]
        result.append(Growth(last, delta, seconds))
    return result


def _moment(sample: Sample) -> tuple[bool, float, str, int]:
    seen = sample.seen
    file = seen.file or ""
    return bool(_LATER.search(file)), seen.at or 0.0, file, seen.line or 0


def judge(grown: Sequence[Growth]) -> list[Finding]:
    """Return what counters that grew by too much say, the first of each device and rule."""
    flagged: dict[tuple[str, str | None, str], Finding] = {}
    for each in grown:
        watch = WATCHED.get((each.last.kind, each.last.name))
        if watch is None or each.delta == 0 or each.per_hour() <= watch.hourly:
            continue
        key = (watch.rule.signature, each.last.seen.node, each.last.device)
        flagged.setdefault(key, _finding(watch.rule, each))
    return _as_culprits(list(flagged.values()), grown)


def judge_alone(samples: Sequence[Sample]) -> list[Finding]:
    """Return what counters say that were read once: of all of them only a memory error that nothing corrected."""
    counts = Counter((each.seen.node, each.device, each.name) for each in samples)
    return [
        MEMORY_OLD.of(replace(each.seen, at=None), detail=f"{each.name}={each.value}")
        for each in samples
        if each.kind == "edac"
        and each.name.startswith("ue")
        and each.value
        and counts[each.seen.node, each.device, each.name] == 1
    ]


def _finding(rule: Rule, grown: Growth) -> Finding:
    return rule.of(grown.seen(), detail=f"{grown.last.name}=+{grown.delta}", device=grown.last.device)


def _as_culprits(findings: list[Finding], grown: Sequence[Growth]) -> list[Finding]:
    """Take the node from findings of the network that most of the sampled nodes share: then no node stands out."""
    sampled = {each.last.seen.node for each in grown if each.last.kind in {"port", "nic"}}
    result = []
    for each in findings:
        alike = {other.evidence.node for other in findings if other.signature == each.signature}
        shared = each.label.startswith("network/") and len(sampled) > 2 and 2 * len(alike) > len(sampled)
        result.append(replace(each, evidence=replace(each.evidence, node=None)) if shared else each)
    return result
