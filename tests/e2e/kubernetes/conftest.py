"""Fixtures of the tests that need a real Kubernetes.

They skip, and say what to type, where no cluster can be made; with ``WHEELTAPPER_REQUIRE_KUBERNETES=1`` they fail instead.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kubernetes import release
from tests.e2e.kubernetes.cluster import Cluster, Node, Unavailable, check, is_held, shared
from tests.e2e.kubernetes.gangs import SOON_S, pods_of
from tests.integration.control_plane import do_without

HERE = Path(__file__).parent
PREFIX = "wheeltapper-kubernetes-"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kubernetes)
            # The first test waits for the cluster, too.
            item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture(scope="session", autouse=True)
def kubernetes_is_here() -> None:
    """Skip everything here, or fail when Kubernetes is required, where no cluster can be made."""
    try:
        check(f"{sys.executable} -m pytest {HERE}")
    except Unavailable as error:
        do_without(str(error))


@pytest.fixture(scope="session", autouse=True)
def no_other_cluster() -> Iterator[None]:
    """What finds a cluster by itself finds none: not a person's own, and not one that these tests run in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", os.devnull)
        patch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, testrun_uid: str) -> Iterator[Cluster]:
    """The one cluster of this run, shared by all workers of pytest-xdist: a test leaves it as it found it.

    When a test fails, the folder with all logs stays, and its name is printed.
    """
    folder = Path(tempfile.gettempdir()) / f"{PREFIX}{testrun_uid[:12]}"
    keep = folder / "keep"
    with shared(folder) as made:
        yield made
        if request.session.testsfailed:
            keep.touch()
    if is_held(folder):
        return
    if keep.exists():
        print(f"\nThe logs of the cluster are kept in {folder}")
    else:
        shutil.rmtree(folder)


@pytest.fixture
def cluster_folder() -> Iterator[Path]:
    """An empty folder for a cluster of a test's own; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def job(cluster: Cluster) -> Iterator[str]:
    """The name of a job of the test's own, which goes with its pods afterwards."""
    name = f"job-{secrets.token_hex(3)}"
    yield name
    cluster.kubectl("delete", "pytorchjob", name, "--ignore-not-found")
    cluster.wait(lambda: not pods_of(cluster, name), SOON_S, f"the pods of {name} to be gone")


@pytest.fixture
def mended(cluster: Cluster) -> Iterator[list[Node]]:
    """The nodes that a test has broken: it puts them in."""
    broken: list[Node] = []
    yield broken
    for node in broken:
        release.mend(cluster, node)
