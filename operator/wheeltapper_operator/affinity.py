"""Our own rules for host names in a pod template's affinity: which nodes it may not use, and which it had better not.

Only what says exactly what we wrote is ours: a rule that somebody has changed is theirs, and stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wheeltapper_operator.api import Json

HOSTNAME = "kubernetes.io/hostname"

WEIGHT = 100
"""Of what we would rather avoid: the most that Kubernetes takes, since one relapse costs the work of a whole gang."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Hosts:
    """Host names that are shut out, and host names that are avoided as far as there is room elsewhere."""

    excluded: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()


def replaced(affinity: Json, before: Hosts, after: Hosts) -> Json:
    """Return *affinity* with our rules for *before* taken out and those for *after* put in, for a merge patch."""
    node = affinity.get("nodeAffinity") or {}
    required = node.get(_REQUIRED) or {}
    terms = [_term(each, before.excluded, after.excluded) for each in required.get("nodeSelectorTerms") or [{}]]
    terms = [each for each in terms if each]
    wishes = [each for each in node.get(_PREFERRED) or () if each != _wish(before.avoided)]
    if after.avoided:
        wishes.append(_wish(after.avoided))
    rules = {_REQUIRED: {**required, "nodeSelectorTerms": terms} if terms else None, _PREFERRED: wishes or None}
    return {**affinity, "nodeAffinity": {**node, **rules}}


def _term(term: Json, before: Sequence[str], after: Sequence[str]) -> Json:
    kept = [each for each in term.get("matchExpressions") or () if each != _not_in(before)]
    if after:
        kept.append(_not_in(after))
    rest = {key: value for key, value in term.items() if key != "matchExpressions"}
    return rest | ({"matchExpressions": kept} if kept else {})


def _wish(hosts: Sequence[str]) -> Json:
    return {"weight": WEIGHT, "preference": {"matchExpressions": [_not_in(hosts)]}}


def _not_in(hosts: Sequence[str]) -> Json:
    return {"key": HOSTNAME, "operator": "NotIn", "values": list(hosts)}
