"""The commands about this node: preflight and checks, with an agent and without; and the configuration of checks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.node import Node, until
from tests.integration.site_check import SiteCheck
from wheeltapper.checks.registry import shipped
from wheeltapper.wire import Answer, Leave, Report


def wheeltapper(node: Node, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wheeltapper.cli.main", *arguments]
    environment = {**node.environment, "WHEELTAPPER_CONFIG": str(node.config_file), "COLUMNS": "200"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def wheel(node: Node) -> SiteCheck:
    check = SiteCheck(node.folder / "checks.d", gpu="0000:3b:00")
    node.configure(checks={"dirs": [str(check.folder)]})
    return check


@pytest.mark.parametrize("agent", [True, False])
@pytest.mark.parametrize(
    ("told", "code", "says"),
    [
        ("whole", 0, ("ok", "")),
        ("worn 90", 0, ("warn", "the wheel is worn by 90 %")),
        ("cracked", 1, ("fail", "the wheel has a crack")),
        ("dark", 3, ("unknown", "it is dark")),
        ("absent", 0, ("not applicable", "this node has no wheel")),
    ],
)
def test_preflight_says_what_each_check_says(node: Node, wheel: SiteCheck, agent, told, code, says):
    wheel.tell(told)
    if agent:
        node.start()
    ended = wheeltapper(node, "preflight", "--json")
    said = json.loads(ended.stdout)
    (line,) = (each for each in said["checks"] if each["check"] == "wheel")

    assert ended.returncode == code, ended.stderr
    assert (line["result"], line["reason"]) == says
    assert said["asked"] == ("agent" if agent else "this process")
    assert {each["check"] for each in said["checks"]} == {"gpu_count", "kernel_log", "wheel"}


def test_preflight_for_people_is_a_table_with_reasons(node: Node, wheel: SiteCheck):
    wheel.tell("cracked")
    node.start()
    node.lose_gpu()
    until(lambda: "fail" in node.state, "the verdict")
    ended = wheeltapper(node, "preflight")

    assert ended.returncode == 1
    for said in ("kernel_log", "GPU has fallen off the bus", "wheel", "the wheel has a crack", "Asked: the agent."):
        assert said in ended.stdout


def test_preflight_for_people_counts_what_does_not_apply(node: Node, wheel: SiteCheck):
    wheel.tell("absent")
    short = wheeltapper(node, "preflight").stdout
    long = wheeltapper(node, "preflight", "--all").stdout

    assert "this node has no wheel" not in short
    assert "2 checks do not apply to this node; --all lists them." in short
    assert "this node has no wheel" in long


def test_a_warning_of_another_gpu_is_not_the_jobs_business(node: Node, wheel: SiteCheck):
    wheel.tell("worn 90")

    def verdict(*gpus: str) -> str:
        options = [word for gpu in gpus for word in ("--gpu", gpu)]
        return json.loads(wheeltapper(node, "preflight", "--json", *options).stdout)["verdict"]["state"]

    for start in (None, node.start):
        if start:
            start()
        assert verdict() == "warn"
        assert verdict("0000:86:00", "0000:3b:00") == "warn"
        assert verdict("0000:86:00") == "ok"


def test_an_address_that_is_none_is_named(node: Node):
    ended = wheeltapper(node, "preflight", "--gpu", "7")

    assert ended.returncode == 2
    assert "'7' is no PCI address" in ended.stderr


def test_checks_lists_those_of_a_site_beside_ours(node: Node, wheel: SiteCheck):
    node.configure(checks={"off": []})
    ended = wheeltapper(node, "checks", "list")
    names = [line.split()[0] for line in ended.stdout.splitlines()]

    assert names == sorted([*shipped(), "wheel"])
    assert "Is the wheel whole?" in ended.stdout


def test_checks_shows_limits_and_what_it_says_here(node: Node, wheel: SiteCheck):
    node.configure(**{"checks.limits.wheel": {"worn_percent": 95.0}})
    wheel.tell("absent")
    told = wheeltapper(node, "checks", "show", "wheel").stdout
    record = json.loads(wheeltapper(node, "checks", "show", "wheel", "--json").stdout)

    assert "worn_percent = 95.0 (default 50.0): Percent from which it is worn; our own choice." in told
    assert "It does not apply here: this node has no wheel." in told
    assert record["limits"] == [
        {
            "key": "worn_percent",
            "default": 50.0,
            "value": 95.0,
            "about": "Percent from which it is worn; our own choice.",
        }
    ]
    assert record["here"]["result"] == "not applicable"


def test_a_check_that_there_is_not_is_said(node: Node):
    ended = wheeltapper(node, "checks", "show", "nosuch")

    assert (ended.returncode, ended.stdout) == (3, "")
    assert "there is no check nosuch" in ended.stderr


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"checks.limits.wheel": {"worn_parts": 1}}, "checks.limits.wheel.worn_parts: there is no such key"),
        ({"checks": {"off": ["nosuch"]}}, "checks.off: there is no check named 'nosuch'"),
    ],
)
def test_config_check_names_what_is_wrong_with_a_check(node: Node, wheel: SiteCheck, wrong, said):
    assert wheeltapper(node, "config", "check").returncode == 0
    node.configure(**wrong)
    ended = wheeltapper(node, "config", "check")

    assert ended.returncode == 2
    assert said in ended.stderr


def test_the_schema_holds_the_limits_of_every_check(node: Node):
    schema = json.loads(wheeltapper(node, "config", "schema").stdout)
    limits = schema["$defs"]["ChecksSection"]["properties"]["limits"]["properties"]

    assert limits.keys() == shipped().keys()
    for name, module in shipped().items():
        assert limits[name].get("properties", {}).keys() == module.CHECK.limits.model_fields.keys()


def drill(node: Node, *arguments: str) -> tuple[int, dict[str, tuple[bool, str]]]:
    ended = wheeltapper(node, "drill", *arguments, "--json")
    stations = json.loads(ended.stdout)["stations"]
    return ended.returncode, {each["name"]: (each["seen"], each["told"]) for each in stations}


def test_a_drill_is_seen_at_every_station_and_changes_nothing(node: Node, serve):
    service = serve(Answer(reason="a real one would ask to drain the node", recorded=True))
    node.configure(policy={"mode": "full"})
    node.start()
    code, stations = drill(node, "xid-79", "--node", "n1")

    assert code == 0
    assert {name: seen for name, (seen, _) in stations.items()} == dict.fromkeys(STATIONS, True)
    assert stations["agent"][1] == "found nvidia.xid.79 (hardware/gpu_xid, reboot)"
    (leave,) = service.heard(Leave)
    assert (leave.context, leave.job, [each.detail for each in leave.findings]) == ("drill", None, ["xid=79"])
    assert node.state == "ok"
    for hook in ("prolog", "epilog", "healthcheck"):
        assert node.hook(hook).returncode == 0
    assert node.slurm.calls == []
    assert service.heard(Report)[0].findings == ()


STATIONS = ("kernel log", "agent", "controller", "ledger")


@pytest.mark.parametrize("kind", ["xid-13", "link-down", "oom"])
def test_a_drill_of_what_takes_no_node_out_is_not_looked_for_in_the_ledger(node: Node, serve, kind):
    serve(Answer(reason="no positive hardware evidence was given"))
    node.start()
    code, stations = drill(node, kind)

    assert code == 0
    assert [*stations] == ["kernel log", "agent", "controller"]


def test_a_drill_without_a_controller_says_where_it_ended(node: Node):
    node.start()
    ended = wheeltapper(node, "drill", "xid-48")

    assert ended.returncode == 1
    assert "seen      agent       found nvidia.xid.48" in ended.stdout
    assert "NOT SEEN  controller  No controller service is asked, because there is no key file" in ended.stdout


def test_a_kernel_log_that_cannot_be_written_ends_a_drill(node: Node):
    node.start()
    node.kmsg_file.rename(node.folder / "rotated")
    code, stations = drill(node, "xid-79")

    assert code == 1
    assert not stations["kernel log"][0]
    assert "cannot be written" in stations["kernel log"][1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["xid-999"], "there is no drill 'xid-999'"),
        (["xid-79", "--node", "n2"], "this is n1; type it on n2"),
    ],
)
def test_a_drill_that_cannot_be_played_is_refused(node: Node, arguments, said):
    node.start()
    ended = wheeltapper(node, "drill", *arguments)

    assert ended.returncode == 2
    assert said in ended.stderr


def test_a_drill_needs_an_agent(node: Node):
    ended = wheeltapper(node, "drill", "xid-79")

    assert ended.returncode == 2
    assert "the agent does not answer" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_drill_goes_through_the_real_kernel_log(node: Node, serve):
    device = Path("/dev/kmsg")
    if not device.is_char_device() or not os.access(device, os.R_OK | os.W_OK):
        pytest.skip("there is no kernel log here that may be read and written")
    serve(Answer(recorded=True))
    node.configure(agent={"kmsg": str(device)})
    node.start()
    if node.state == "unknown":
        pytest.skip("the kernel log may not be read here")
    before = node.state
    code, stations = drill(node, "xid-79")

    assert code == 0, stations
    assert node.state == before
