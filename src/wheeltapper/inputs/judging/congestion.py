"""A fabric that is full: switches mark packets, ask for pauses or drop, senders wait, and no link is broken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from wheeltapper.evidence import Finding
from wheeltapper.inputs.judging.counters import Growth
from wheeltapper.inputs.model import Rule

CONGESTION = Rule("counters.congestion", "network/congestion", "the fabric made hosts wait, slow down or lose packets")

SIGNALS_MIN = 100_000
"""Pause frames or congestion notifications below which nobody waits: a second of a port's packets is a million."""

SHARE_MIN = 0.001
"""Share of the packets from which it counts: healthy RoCE marks far fewer than one in a thousand."""

WAIT_MIN = 100_000_000
"""Ticks of waiting from which InfiniBand's counter counts: less passes in a second of an ordinary exchange."""

WAIT_SHARE = 0.5
"""Ticks of waiting per word sent from which a port waited for a good part of its time."""

DISCARDS_HOURLY = 360_000
"""Packets dropped per hour; NVIDIA NVSentinel warns at a hundred a second."""

_SIGNAL = re.compile(
    r"^(?:rx|tx)_prio\d_pause$|^(?:rx|tx)_pause_ctrl_phy$|^np_ecn_marked_roce_packets$|^np_cnp_sent$|^rp_cnp_handled$"
)
_PACKETS = re.compile(r"^(?:rx|tx)_(?:prio\d_|vport_rdma_unicast_)?packets$|^port_(?:rcv|xmit)_packets$")
_DISCARDS = re.compile(r"^(?:rx|tx)_(?:prio\d_)?discards(?:_phy)?$|^port_xmit_discards$")


def judge(grown: Sequence[Growth]) -> list[Finding]:
    """Return the congestion that *grown* counters show: of one host with its name, of several without one."""
    hosts = {each.last.seen.node for each in grown}
    found = [each for host in sorted(hosts, key=str) if (each := _of_host(host, grown))]
    if len(found) > 1:
        return [replace(each, evidence=replace(each.evidence, node=None)) for each in found]
    return found


def _of_host(host: str | None, grown: Sequence[Growth]) -> Finding | None:
    own = [each for each in grown if each.last.seen.node == host and each.last.kind in {"nic", "port"}]
    packets = max((each.delta for each in own if _PACKETS.match(each.last.name)), default=0)
    sent = {each.last.device: each.delta for each in own if each.last.name == "port_xmit_data"}
    loud = [each for each in own if _is_loud(each, packets, sent.get(each.last.device))]
    if not loud:
        return None
    first = min(loud, key=lambda each: each.last.seen.line or 0)
    return CONGESTION.of(first.seen(), detail=f"{first.last.name}=+{first.delta}", device=first.last.device)


def _is_loud(grown: Growth, packets: int, sent: int | None) -> bool:
    name = grown.last.name
    if _SIGNAL.match(name):
        return grown.delta >= max(SIGNALS_MIN, SHARE_MIN * packets)
    if name == "port_xmit_wait" and sent is not None:
        return grown.delta >= max(WAIT_MIN, WAIT_SHARE * sent)
    return bool(_DISCARDS.match(name)) and grown.per_hour() > DISCARDS_HOURLY
