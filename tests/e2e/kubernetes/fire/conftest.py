"""Fixtures: a real API server that may be broken, and an empty cluster in it. No kind, no Docker and no root."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.integration.control_plane import ControlPlane, do_without, missing, started
from wheeltapper_operator.api import Api


@pytest.fixture(scope="session", autouse=True)
def kubernetes_is_here() -> None:
    """Skip, or fail when Kubernetes is required, where no API server can be started."""
    if why := missing():
        do_without(why)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd, the API server and the controller of batch jobs, with the namespaces that tests use."""
    with started(tmp_path_factory.mktemp("control-plane")) as made:
        made.controllers("job-controller", "garbage-collector-controller")
        asyncio.run(_furnish(made))
        yield made


async def _furnish(plane: ControlPlane) -> None:
    api = await Api.connect(plane.kubeconfig)
    for name in ("wheeltapper", "team"):
        await api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    await api.close()
