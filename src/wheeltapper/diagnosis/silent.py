"""Who did not report: after a collective timeout the silent rank or node is the suspect."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from wheeltapper.attempt import Attempt
from wheeltapper.diagnosis.model import Suspect
from wheeltapper.evidence import Finding

SUSPECTS_MAX = 8
"""More suspects than this are no suspects: the GPUs of one node."""

_ADDRESS = re.compile(r"^[\d.]+$|^[0-9a-f:]*:[0-9a-f:]*$")


def suspects(findings: Sequence[Finding], attempt: Attempt | None) -> tuple[Suspect, ...]:
    """Return whom the network findings among *findings* leave in doubt; empty when nobody stands out."""
    network = [each for each in findings if each.label.startswith("network/")]
    nodes = attempt.nodes if attempt else ()
    return (
        _recorded(findings)
        or _accused_peer(network)
        or _silent_node(network, nodes)
        or _behind(network)
        or _silent_ranks(network)
    )


def _recorded(findings: Sequence[Finding]) -> tuple[Suspect, ...]:
    """Return the ranks that the flight recorder or a coordinator names: they have seen who never came."""
    named = {int(rank): each for each in findings if (rank := each.fields.get("silent") or each.fields.get("listed"))}
    return tuple(
        Suspect(rank=rank, reason=each.fields.get("reason", each.summary)) for rank, each in sorted(named.items())
    )


def _accused_peer(network: Sequence[Finding]) -> tuple[Suspect, ...]:
    named = Counter(peer for each in network if (peer := _host(each.fields.get("peer", ""))))
    speakers = {each.fields["host"].partition(".")[0] for each in network if "host" in each.fields}
    if len(named) != 1:
        return ()
    (peer, times) = next(iter(named.items()))
    if times < 2 and len(speakers) > 1:
        return ()
    return (Suspect(node=peer, reason=f"{times} reports name it as the peer that is gone"),)


def _host(peer: str) -> str:
    """Return the host in ``n2.cluster<41001>``; an address names no node that the scheduler knows."""
    name = peer.partition("<")[0]
    return "" if _ADDRESS.match(name) else name.partition(".")[0]


def _silent_node(network: Sequence[Finding], nodes: Sequence[str]) -> tuple[Suspect, ...]:
    speakers = {each.fields["host"].partition(".")[0] for each in network if "host" in each.fields}
    silent = [node for node in nodes if node not in speakers]
    # Only hosts that the log itself names count; a name that is no node's means that names cannot be compared.
    if not speakers or not speakers <= set(nodes) or len(silent) != 1:
        return ()
    return (Suspect(node=silent[0], reason="every other node of the job reported"),)


def _behind(network: Sequence[Finding]) -> tuple[Suspect, ...]:
    """Return the ranks that had enqueued less than the others when the watchdog fired: they did not arrive."""
    enqueued = {
        each.evidence.rank: int(each.fields["enqueued"])
        for each in network
        if each.evidence.rank is not None and "enqueued" in each.fields and each.fields.get("pg", "0") == "0"
    }
    if len(set(enqueued.values())) < 2:
        return ()
    last = max(enqueued.values())
    late = [rank for rank, work in sorted(enqueued.items()) if work < last]
    if 2 * len(late) > len(enqueued):
        return ()
    return tuple(
        Suspect(rank=rank, reason=f"it had enqueued collective {enqueued[rank]} while others were at {last}")
        for rank in late[:SUSPECTS_MAX]
    )


def _silent_ranks(network: Sequence[Finding]) -> tuple[Suspect, ...]:
    spoke = {each.evidence.rank for each in network if each.label == "network/nccl_timeout"} - {None}
    ranks = {rank for rank in spoke if rank is not None}
    if not ranks:
        return ()
    missing = sorted(set(range(max(ranks))) - ranks)
    if not missing or len(missing) > min(len(ranks), SUSPECTS_MAX):
        return ()
    return tuple(Suspect(rank=rank, reason="it reported nothing while other ranks timed out") for rank in missing)
