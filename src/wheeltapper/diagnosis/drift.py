"""Do the nodes of a job run the same thing? One that took another network or version cannot speak to the rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from wheeltapper.diagnosis.together import inferred
from wheeltapper.evidence import Disposition, Evidence, Finding, Role, Source
from wheeltapper.labels import Label

FACTS = {
    "network": "NCCL's network",
    "driver": "the CUDA driver",
    "nccl": "NCCL",
    "installed_nvidia_driver": "the NVIDIA driver",
    "installed_nccl": "the installed NCCL",
    "installed_cuda": "the installed CUDA",
    "installed_ofed": "the driver of the network adapters",
}
"""Fields that must agree between nodes, and their names for people."""

BRANCHES = {"nvidia_driver": 1, "nccl": 2, "cuda": 2, "ofed": 2}
"""How many numbers of an installed version make a branch. Within one, nodes work together: every update that is rolled
out node by node makes such a difference, so it is told and explains nothing. Nor does the kernel's version."""

INSTALLED = "versions.differ"
"""The signature of what a node has installed, where another node of the job has something else."""

REASON = "nccl.network.reason"
NO_DEVICE = "NET/IB : No device found"


def between(versions: Mapping[str, Mapping[str, str]]) -> list[Finding]:
    """Return what differs in the *versions* of a job's nodes (by node, then by name): a witness for each of them."""
    names = sorted({name for told in versions.values() for name in told})
    differing = [name for name in names if len({told[name] for told in versions.values() if name in told}) > 1]
    if not differing:
        return []
    return [_installed(node, versions[node], differing) for node in sorted(versions)]


def _installed(node: str, told: Mapping[str, str], differing: Sequence[str]) -> Finding:
    text = ", ".join(f"{name} {told.get(name, 'not found')}" for name in differing)
    branches = {
        f"installed_{name}": ".".join(told[name].split(".")[: BRANCHES[name]])
        for name in differing
        if name in BRANCHES and name in told
    }
    evidence = Evidence(Source.CHECK, f"{node} has {text}", node=node)
    summary = "the nodes of the job have different versions installed"
    label = Label("software/env_mismatch")
    return Finding(INSTALLED, label, Role.CONFIRM, Disposition.NONE, evidence, "", summary, {"host": node, **branches})


def with_odd_nodes(told: Sequence[Finding]) -> list[Finding]:
    """Return *told*, and the node that differs, when a collective failed and nothing else was said to be wrong."""
    if not any(each.role in {Role.SYMPTOM, Role.CASCADE} and each.label.startswith("network/") for each in told):
        return list(told)
    for field, name in FACTS.items():
        odd = _odd_one(told, field)
        if odd:
            return [*told, _explained(odd, field, name, told)]
    return list(told)


def _odd_one(told: Sequence[Finding], field: str) -> Finding | None:
    """Return the first finding of the node whose *field* differs from that of the others."""
    values: dict[str, set[str]] = defaultdict(set)
    first: dict[str, Finding] = {}
    for each in told:
        if field in each.fields and "host" in each.fields:
            host = each.fields["host"]
            values[host].add(each.fields[field])
            first.setdefault(host, each)
    settled = {host: next(iter(found)) for host, found in values.items() if len(found) == 1}
    counted = Counter(settled.values())
    if len(counted) != 2:
        return None
    rare = min(counted, key=lambda value: (counted[value], _rank(value)))
    odd = [host for host, value in settled.items() if value == rare]
    return first[odd[0]] if len(odd) == 1 else None


def _rank(network: str) -> int:
    """With two nodes neither is the rarer: the one without the better network is the odd one."""
    return {"Socket": 0, "IB": 1}.get(network, 2)


def _explained(odd: Finding, field: str, name: str, told: Sequence[Finding]) -> Finding:
    host, value = odd.fields["host"], odd.fields[field]
    reasons = [each for each in told if each.signature == REASON and each.fields.get("host") == host]
    without_adapter = next((each for each in reasons if each.fields["reason"] == NO_DEVICE), None)
    if field == "network" and without_adapter:
        summary = f"{host} has none of the network adapters that the other nodes use"
        return inferred("no_adapter", "network/topology", summary, without_adapter, node=host)
    rests_on = reasons[0] if reasons and field == "network" else odd
    summary = f"{name} on {host} is {value}, and another on the other nodes"
    return inferred("drift", "software/env_mismatch", summary, rests_on, node=host)
