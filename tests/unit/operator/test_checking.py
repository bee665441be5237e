"""What `helm test` finds wrong with an installation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count, repeat
from typing import Any

import pytest

from wheeltapper_operator import checking
from wheeltapper_operator.api import ApiError


class Api:
    """Answers with a lease, agents' pods by node, and the nodes that have spoken: by the first look, the second, …"""

    def __init__(self, renewals: Iterator[int], pods: tuple[str, ...] = (), *told: tuple[str, ...]) -> None:
        self._renewals = renewals
        self._pods = pods
        self._told = list(told) or [()]
        self._asked = False
        self.selectors: list[str] = []

    async def get(self, path: str, labelSelector: str = "") -> dict[str, Any]:  # noqa: N803 - the API's own word
        if path.endswith("/leases/wheeltapper-operator"):
            return {"spec": {"holderIdentity": "one", "renewTime": f"t{next(self._renewals)}"}}
        if path.endswith("/pods"):
            self.selectors.append(labelSelector)
            return {"items": [{"spec": {"nodeName": node}} for node in self._pods]}
        if len(self._told) > 1 and self._asked:
            self._told.pop(0)
        self._asked = True
        status = {"verdict": "ok", "bootID": "b", "since": 1.0}
        return {"items": [{"metadata": {"name": node}, "status": status} for node in self._told[0]]}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "LOOK_S", 0.0)
    monkeypatch.setattr(checking, "PATIENCE_S", 0.05)


def check(api: Any) -> list[str]:
    return asyncio.run(checking.check(api, "gpus", "wt"))


def test_an_installation_that_works_has_nothing_wrong():
    api = Api(count(), ("n1", "n2"), ("n1", "n2", "n3"))

    assert check(api) == []
    assert api.selectors == ["app.kubernetes.io/component=agent,app.kubernetes.io/instance=wt"]


def test_a_lease_that_nobody_renews_is_no_leader():
    assert check(Api(repeat(1))) == ["no operator leads: its lease is not renewed"]


def test_an_agent_that_has_not_spoken_is_named():
    assert check(Api(count(), ("n2", "n1"), ("n1",))) == ["the agent on n2 has not said how the node is"]


def test_an_agent_that_has_just_started_is_waited_for():
    assert check(Api(count(), ("n1",), (), ("n1",))) == []


def test_without_a_lease_nobody_leads():
    class NoLease(Api):
        async def get(self, path: str, **query: Any) -> dict[str, Any]:
            if "/leases/" in path:
                raise ApiError(404, "NotFound", path)
            return await super().get(path, **query)

    assert check(NoLease(count())) == ["no operator leads: its lease is not renewed"]
