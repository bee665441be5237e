"""Every check against its machines: what is healthy, faulty, absent and unreadable, and what else its folder holds."""

from __future__ import annotations

import pytest

from tests.integration.machine import DATA, Machine
from wheeltapper import config
from wheeltapper.checks import registry
from wheeltapper.errors import ConfigError

CHECKS = {name: module.CHECK for name, module in registry.shipped().items()}

MACHINES = [
    pytest.param(name, path, id=f"{name}-{path.stem}")
    for name in CHECKS
    for path in sorted((DATA / name).glob("*.toml"))
]

SAMPLE = '''
"""Is the sample there?"""

from wheeltapper.checks.model import Check, Fault, Probe
from wheeltapper.config import Section

MISSING = Fault("sample", "hardware/storage", "the sample is missing")


class Limits(Section):
    least: int = 1


def judge(readings, host, limits):
    if readings[-1].value < limits.least:
        yield MISSING.seen(host, readings[-1].at, "no sample")


CHECK = Check("sample", Probe("sample", lambda host: int((host.run / "sample").read_text())), judge, Limits)
'''


@pytest.mark.parametrize(("name", "path"), MACHINES)
def test_a_check_says_what_its_machine_expects(name, path, tmp_path):
    machine = Machine(path)

    assert machine.ask(CHECKS[name], tmp_path) == machine.told["expect"]


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_has_its_four_machines_and_a_docstring(name):
    expected = {path.stem: Machine(path).told["expect"] for path in (DATA / name).glob("*.toml")}

    assert expected["healthy"] == []
    assert isinstance(expected["faulty"], list)
    assert expected["faulty"]
    assert (expected["absent"], expected["unreadable"]) == ("not applicable", "unreadable")
    assert len(registry.shipped()[name].__doc__.splitlines()) > 1


def chosen(tmp_path, text=""):
    settings = config.parse(f"[checks]\ndirs = ['{tmp_path}/checks.d']\n{text}")
    return {each.check.name: each for each in registry.choose(settings.checks)}


@pytest.fixture
def sample(tmp_path):
    folder = tmp_path / "checks.d"
    folder.mkdir()
    (folder / "sample.py").write_text(SAMPLE)
    return folder / "sample.py"


def test_a_new_check_costs_one_file(sample, tmp_path):
    found = chosen(tmp_path, "[checks.limits.sample]\nleast = 2\n")

    assert found.keys() == CHECKS.keys() | {"sample"}
    assert found["sample"].limits.least == 2
    assert found["sample"].about.strip() == "Is the sample there?"


def test_a_check_that_is_off_is_not_chosen(sample, tmp_path):
    assert chosen(tmp_path, "off = ['sample']").keys() == CHECKS.keys()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("off = ['nosuch']", "checks.off: there is no check named 'nosuch'"),
        ("[checks.limits.nosuch]\nleast = 2", "checks.limits: there is no check named 'nosuch'"),
        ("[checks.limits.sample]\nmost = 2", "checks.limits.sample.most: there is no such key"),
        ("[checks.limits.sample]\nleast = 'two'", "checks.limits.sample.least: input should be a valid integer"),
    ],
)
def test_a_wrong_key_is_named(sample, tmp_path, text, said):
    with pytest.raises(ConfigError, match=said):
        chosen(tmp_path, text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("1 / 0", "sample.py cannot be loaded: ZeroDivisionError"),
        ("CHECK = 3", "sample.py: CHECK is no"),
        ("raise SystemExit", "sample.py cannot be loaded: SystemExit"),
    ],
)
def test_a_wrong_file_is_named(sample, tmp_path, content, said):
    sample.write_text(content)
    with pytest.raises(ConfigError, match=said):
        chosen(tmp_path)


def test_a_site_may_put_its_own_check_in_the_place_of_ours(sample, tmp_path):
    sample.write_text(SAMPLE.replace('Check("sample"', 'Check("gpu_count"'))

    assert chosen(tmp_path)["gpu_count"].about.strip() == "Is the sample there?"
