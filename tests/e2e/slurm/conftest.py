"""Fixtures of the tests that need a real Slurm.

They skip, and say what to type, where no cluster can be made; with ``WHEELTAPPER_REQUIRE_SLURM=1`` they fail instead.
``WHEELTAPPER_SLURM_RELEASE=24.11`` lets them run against another Slurm than the machine's own.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.slurm.cluster import Cluster, Unavailable, require
from tests.e2e.slurm.cluster.release import chosen

HERE = Path(__file__).parent
PREFIX = "wheeltapper-slurm-"

StartCluster = Callable[..., Cluster]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session", autouse=True)
def slurm_is_here() -> None:
    """Skip everything here, or fail when Slurm is required, where no cluster can be made."""
    try:
        require(f"{sys.executable} -m pytest {HERE}", accounting=True, release=chosen())
    except Unavailable as error:
        if os.environ.get("WHEELTAPPER_REQUIRE_SLURM") == "1":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture
def cluster_folder() -> Iterator[Path]:
    """An empty folder for a cluster, open to ordinary users as pytest's own are not; gone afterwards."""
    folder = _new_folder()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def start_cluster(request: pytest.FixtureRequest) -> Iterator[StartCluster]:
    """Start clusters that all tests of a module share; takes what ``Cluster`` takes after its folder.

    A module's own fixture calls it: ``return start_cluster(nodes=2, agents=False)``. When a test of the module fails,
    the folder with all logs stays, and its name is printed.
    """
    failed_before = request.session.testsfailed
    folders = []
    with ExitStack() as stack:

        def start(**options: object) -> Cluster:
            folders.append(_new_folder())
            return stack.enter_context(Cluster(folders[-1], **options))  # type: ignore[arg-type]

        yield start
    for folder in folders:
        if request.session.testsfailed == failed_before:
            shutil.rmtree(folder)
        else:
            print(f"\nThe logs of the cluster are kept in {folder}")


def _new_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    folder.chmod(0o755)
    return folder
