"""Other people's programs as checks: their exit codes, their words, their deadlines, and what they leave behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.unit.make import BOOT
from wheeltapper import config
from wheeltapper.checks import registry, running
from wheeltapper.checks.model import Host, Reading
from wheeltapper.errors import ConfigError

HARDWARE = "label = 'hardware/storage'\ndisposition = 'inspect'"


def chosen(command, more=""):
    text = f"[checks]\ndirs = []\n[[checks.programs]]\nname = 'site'\ncommand = {command}\n{more}"
    found = {each.check.name: each for each in registry.choose(config.parse(text).checks)}
    return found["site"]


def asked(script, more=""):
    """Return what the program says, as a finding's parts, or nothing."""
    program = chosen(["/bin/sh", "-c", script], more)
    host = Host("n1", BOOT)
    readings = [Reading(1.0, program.check.probe.read(host))]
    return [
        (each.label, each.disposition.value, each.evidence.text, each.convicts)
        for each in program.check.judge(readings, host, program.limits)
    ]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (0, []),
        (1, [("unknown/unknown", "none", "disk 3 is slow", False)]),
        (2, [("unknown/unknown", "none", "disk 3 is slow", False)]),
    ],
)
def test_the_exit_code_says_ok_fail_or_warn(code, found):
    assert asked(f"echo disk 3; echo is slow >&2; exit {code}") == found


@pytest.mark.parametrize(("code", "convicts"), [(1, True), (2, False)])
def test_a_failure_takes_the_node_out_only_where_the_site_says_so(code, convicts):
    [(label, _, _, found)] = asked(f"exit {code}", HARDWARE)

    assert (label, found) == ("hardware/storage", convicts)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no dcgm; exit 3", "/bin/sh does not know: no dcgm"),
        ("exit 127", "/bin/sh ended with 127: it said nothing"),
        ("kill -9 $$", "/bin/sh ended with -9: it said nothing"),
    ],
)
def test_anything_else_is_unknown_and_never_a_failure(script, said):
    with pytest.raises(ValueError, match=said):
        asked(script, HARDWARE)


def test_a_program_that_is_not_there_is_unknown():
    program = chosen(["/nosuch/program"])

    with pytest.raises(OSError, match="/nosuch/program"):
        program.check.probe.read(Host("n1", BOOT))


def test_a_late_program_is_killed_with_all_that_it_started(tmp_path):
    script = f"sleep 60 & echo $! >{tmp_path}/child; sleep 60"

    with pytest.raises(TimeoutError, match=r"/bin/sh did not end within 0.5 s"):
        asked(script, "deadline_s = 0.5")

    assert gone(int((tmp_path / "child").read_text()))


def test_a_program_that_leaves_a_child_behind_is_not_waited_for(tmp_path):
    assert asked(f"sleep 60 & echo $! >{tmp_path}/child; echo done; exit 2")[0][2] == "done"

    assert gone(int((tmp_path / "child").read_text()))


def test_a_program_that_closes_its_output_is_waited_for():
    assert asked("exec >&- 2>&-; sleep 0.2; exit 2")[0][2] == "it said nothing"


def test_of_much_output_the_end_is_kept():
    ran = running.run(["/bin/sh", "-c", "yes | head -c 3000000; echo; echo the end"], 20.0, output_max=1000)

    assert (ran.code, len(ran.output)) == (0, 1000)
    assert ran.output.endswith("the end\n")


def test_the_last_words_are_what_a_finding_shows():
    text = asked("yes | head -c 3000; echo the end; exit 1")[0][2]

    assert text.startswith("…")
    assert text.endswith("the end")
    assert len(text) == 301


def test_a_program_is_found_under_the_machines_root(tmp_path):
    path = tmp_path / "usr/sbin/nhc"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\necho found; exit 2\n")
    path.chmod(0o755)
    program = chosen(["nhc"], """about = "The site's own checks." """)

    ran = program.check.probe.read(Host("n1", BOOT, root=tmp_path))

    assert ran == running.Ran(2, "found\n")
    assert program.about.startswith("The site's own checks.\n")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("label = 'hardware/disk'", "checks.programs.0.label: 'hardware/disk' is not a label"),
        (
            "disposition = 'reboot'",
            "checks.programs.0.disposition: reboot takes a node out, and only a hardware/ label",
        ),
        ("disposition = 'drain'", "checks.programs.0.disposition: "),
        ("every = 3", "checks.programs.0.every: there is no such key"),
    ],
)
def test_a_wrong_key_is_named(more, said):
    with pytest.raises(ConfigError, match=said):
        chosen(["/bin/true"], more)


def test_the_example_of_the_documentation_is_what_it_says():
    page = (Path(__file__).parents[2] / "docs/programs-as-checks.md").read_text()
    example = page.partition("```toml\n")[2].partition("```")[0]

    found = {each.check.name: each for each in registry.choose(config.parse(example).checks)}

    assert found["site_nhc"].about.startswith("What does /usr/sbin/nhc say?")
    assert found["raid"].check.probe.deadline_s == 61.0


def test_two_programs_of_one_name_are_refused():
    text = "[checks]\ndirs = []\n" + "[[checks.programs]]\nname = 'site'\ncommand = ['/bin/true']\n" * 2

    with pytest.raises(ConfigError, match=r"checks.programs.1: checks.programs.0 has a check named 'site' too"):
        registry.choose(config.parse(text).checks)


def test_the_probes_deadline_leaves_the_program_its_own():
    probe = chosen(["/bin/true"], "deadline_s = 5.0\nevery_s = 60").check.probe

    assert (probe.deadline_s, probe.every_s, probe.may_hang) == (6.0, 60.0, True)


def gone(pid: int, within_s: float = 10.0) -> bool:
    """Return whether the process *pid* ends within that time; init may be slow to reap it."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z"):
            return True
    return False
