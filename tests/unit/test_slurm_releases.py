"""How the tests choose a release of Slurm, and what they make of a run; no cluster is needed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.e2e.slurm.cluster import Unavailable, release, release_folder, require
from tests.e2e.slurm.releases import Outcome, duration

REPORT = '<testsuites><testsuite tests="81" failures="1" errors="1" skipped="2" time="160.4" /></testsuites>'


def test_the_environment_chooses_a_release_whose_folder_all_checkouts_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setenv(release.CHOICE, "24.11")
    assert release.chosen() == release.Release("24.11", Path("/caches/wheeltapper/slurm-24.11"))
    monkeypatch.delenv(release.CHOICE)
    assert release.chosen() == release.Release(release.OWN, None)
    assert release.chosen().ready


def test_a_folder_is_ready_when_it_is_whole_and_holds_all_that_we_want_now(tmp_path: Path) -> None:
    wanted = release.Release("24.11", tmp_path)
    assert not wanted.ready
    stamp = {"slurm": "24.11.5", "packages": dict.fromkeys(release.PACKAGES[1:], "1")}
    (tmp_path / release.STAMP).write_text(json.dumps(stamp))
    assert not wanted.ready
    stamp["packages"] = dict.fromkeys([*release.PACKAGES, "apt"], "1")
    (tmp_path / release.STAMP).write_text(json.dumps(stamp))
    assert wanted.ready
    assert (wanted.full_version, wanted.version) == ("24.11.5", (24, 11))


def test_a_release_that_is_not_here_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"Slurm 24\.11 is not here; type: make test-release RELEASE=24\.11$"):
        require(release=release.Release("24.11", tmp_path))


def test_a_release_that_debian_never_had_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"Debian has no Slurm 19\.05; it has 22\.05, 24\.11, 26\.05"):
        release_folder.make(release.Release("19.05", tmp_path))


def test_a_distributions_own_python_is_laid_over_every_name_that_leads_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of /usr stays the folder's own."""
    interpreter = Path(sys.executable).resolve()
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    pairs = release.lent(Path("/lab"))
    assert (Path("/lab"), Path("/lab")) in pairs
    assert Path("/usr") not in [target for _, target in pairs]
    assert (interpreter, interpreter) in pairs


def test_a_run_is_told_in_one_line(tmp_path: Path) -> None:
    assert Outcome.read(tmp_path / "none.xml") is None
    (tmp_path / "one.xml").write_text(REPORT)
    assert str(Outcome.read(tmp_path / "one.xml")) == "77 passed, 2 failed, 2 skipped in 2 min 40 s"
    assert duration(59.4) == "59 s"
