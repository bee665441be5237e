"""What helm makes of the chart, without a cluster."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import monitoring, snapshots, values_schema
from tests.e2e.kubernetes.cluster import cache
from tests.integration.control_plane import do_without
from wheeltapper import config

CHART = snapshots.CHART
KUBERNETES = snapshots.KUBERNETES

Helm = Callable[..., "subprocess.CompletedProcess[str]"]
Render = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def program() -> str:
    """The helm of the test cluster, or the machine's own."""
    found = shutil.which("helm", path=str(cache.find().bin)) or shutil.which("helm")
    if found is None:
        do_without("there is no helm; `make kubernetes` builds one")
    return found


@pytest.fixture(scope="session")
def helm(program: str) -> Helm:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=60)

    return run


@pytest.fixture(scope="session")
def render(program: str) -> Render:
    def rendered(*words: str) -> list[dict[str, Any]]:
        return [item for item in yaml.safe_load_all(snapshots.render(program, *words)) if item]

    return rendered


def one(items: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in items if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def test_helm_has_nothing_against_the_chart(helm: Helm) -> None:
    ended = helm("lint", "--strict", str(CHART), f"--kube-version={KUBERNETES}")

    assert ended.returncode == 0, ended.stdout


def test_an_older_kubernetes_is_refused(helm: Helm) -> None:
    ended = helm("template", "wt", str(CHART), "--kube-version=1.29.9")

    assert ended.returncode != 0
    assert "requires kubeVersion" in ended.stderr


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("config.policy.mod=full", "mod"),
        ("config.policy.mode=ful", "/config/policy/mode"),
        ("config.polcy.mode=full", "polcy"),
        ("operator.replica=3", "replica"),
        ("agent.host.kernelLog=dev/kmsg", "/agent/host/kernelLog"),
        ("cleanup.enabled=false", "cleanup"),
    ],
)
def test_a_typo_in_the_values_is_refused_and_named(helm: Helm, words: str, key: str) -> None:
    ended = helm("template", "wt", str(CHART), f"--kube-version={KUBERNETES}", "--set", words)

    assert ended.returncode != 0
    assert key in ended.stderr


def test_the_schema_of_the_values_is_that_of_the_model() -> None:
    assert values_schema.TARGET.read_text() == values_schema.text(), "it is stale; type: make chart"


@pytest.mark.parametrize("name", monitoring.NAMES)
def test_the_charts_copy_of_rules_and_dashboard_is_what_stands_in_monitoring(name: str) -> None:
    assert (monitoring.TARGET / name).read_bytes() == (monitoring.SOURCE / name).read_bytes(), "stale; type: make chart"


def test_what_is_told_to_prometheus_is_off_by_default_and_whole_when_it_is_on(render: Render) -> None:
    switches = ("enabled", "prometheusOperator.enabled", "dashboard.enabled")
    off, on = render(), render(*(f"--set=monitoring.{switch}=true" for switch in switches))
    rules = yaml.safe_load((monitoring.SOURCE / "rules.yaml").read_text())
    board = json.loads((monitoring.SOURCE / "dashboard.json").read_text())
    text = one(on, "ConfigMap", "wt-wheeltapper")["data"]["wheeltapper.json"]
    asked = {
        role: one(on, "PodMonitor", f"wt-wheeltapper-{role}")["spec"]["podMetricsEndpoints"][0]["relabelings"][0]
        for role in ("operator", "agent")
    }

    assert not {"PodMonitor", "PrometheusRule"} & kinds(off)
    assert one(on, "PrometheusRule", "wt-wheeltapper")["spec"] == rules
    assert json.loads(one(on, "ConfigMap", "wt-wheeltapper-dashboard")["data"]["wheeltapper.json"]) == board
    assert config.parse(text, "x.json").metrics == config.MetricsSection(
        address="0.0.0.0", agent_port=9469, operator_port=9470
    )
    assert {role: each["replacement"] for role, each in asked.items()} == {
        role: f"wheeltapper-{role}" for role in asked
    }


@pytest.mark.parametrize(
    ("words", "resource", "verb"),
    [
        ("config.kubernetes.evict=true", "pods/eviction", "create"),
        ("config.kubernetes.dead_nodes=delete_pods", "pods", "delete"),
    ],
)
def test_a_right_over_others_pods_is_given_only_where_it_is_configured(
    render: Render, words: str, resource: str, verb: str
) -> None:
    def may(items: list[dict[str, Any]]) -> bool:
        rules = one(items, "ClusterRole", "wt-wheeltapper-operator")["rules"]
        return any(resource in rule["resources"] and verb in rule["verbs"] for rule in rules)

    assert not may(render())
    assert may(render(f"--set={words}"))


def test_the_configuration_in_the_cluster_is_understood(render: Render) -> None:
    given = {
        "policy": {"mode": "full", "budget": {"max_percent": 12.5}},
        "agent": {"ring_rows": 2_000_000},
        "checks": {"off": ["load"]},
    }
    items = render(f"--set-json=config={json.dumps(given)}")
    text = one(items, "ConfigMap", "wt-wheeltapper")["data"]["wheeltapper.json"]
    made = config.parse(text, "wheeltapper.json")

    assert (made.policy.mode, made.agent.ring_rows, made.policy.budget.max_percent) == ("full", 2_000_000, 12.5)
    assert (made.kubernetes.namespace, made.agent.scheduler) == ("gpus", "kubernetes")
    assert made.checks.off == ("load", "shm"), "a pod's /dev/shm is its own, and small"


def test_every_value_is_commented() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    keys = [number for number, line in enumerate(lines) if re.match(r" *[A-Za-z]\w*:", line)]
    bare = [
        lines[number]
        for number in keys
        # Kubernetes' own words below a value of ours, and variables that one comment explains together.
        if not re.match(r" *(requests|limits|NVIDIA_DRIVER_CAPABILITIES):", lines[number])
        and not lines[number - 1].lstrip().startswith("#")
    ]

    assert bare == []


def test_the_operator_is_held_to_the_restricted_profile(render: Render) -> None:
    items = render()
    pods = [
        one(items, "Deployment", "wt-wheeltapper-operator")["spec"]["template"]["spec"],
        one(items, "Job", "wt-wheeltapper-clean-up")["spec"]["template"]["spec"],
        one(items, "Pod", "wt-wheeltapper-check")["spec"],
    ]
    for spec in pods:
        (container,) = spec["containers"]
        said = container["securityContext"]
        assert said["runAsNonRoot"]
        assert said["readOnlyRootFilesystem"]
        assert not said["allowPrivilegeEscalation"]
        assert said["capabilities"] == {"drop": ["ALL"]}
        assert said["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not [volume for volume in spec["volumes"] if "hostPath" in volume]


def test_only_the_opener_of_the_kernel_log_is_privileged(render: Render) -> None:
    spec = one(render(), "DaemonSet", "wt-wheeltapper-agent")["spec"]["template"]["spec"]
    containers = {each["name"]: each for each in (*spec["initContainers"], *spec["containers"])}
    privileged = [name for name, each in containers.items() if each["securityContext"].get("privileged")]
    mounts = {name: {each["name"]: each for each in item["volumeMounts"]} for name, item in containers.items()}

    assert privileged == ["kernel-log"]
    assert set(mounts["kernel-log"]) == {"the-kernel-log", "kernel-log"}
    assert containers["agent"]["securityContext"]["runAsUser"] == 65532
    assert [name for name in containers if "token" in mounts[name]] == ["agent"]
    assert mounts["agent"]["sys"]["readOnly"]
    assert not spec.get("hostPID")
    assert not spec.get("hostNetwork")


@pytest.mark.parametrize("role", ["operator", "agent", "clean-up", "check"])
def test_no_role_holds_a_right_that_is_not_spelt_out(render: Render, role: str) -> None:
    rules = one(render(), "ClusterRole", f"wt-wheeltapper-{role}")["rules"]
    words = {word for rule in rules for key in ("verbs", "resources", "apiGroups") for word in rule[key]}

    assert "*" not in words
    assert not words & {"secrets", "pods/exec", "escalate", "impersonate", "bind"}


@pytest.mark.parametrize("case", snapshots.CASES)
def test_the_rendered_objects_are_those_that_were_looked_at(program: str, case: str) -> None:
    """After a change that is meant: look at the difference that this shows, and then ``make chart``."""
    rendered = snapshots.render(program, *snapshots.CASES[case])

    assert rendered == (snapshots.FOLDER / f"{case}.yaml").read_text(), f"the chart renders {case} otherwise"


@pytest.mark.parametrize(
    ("mode", "words"), [("observe", "Stage 1 of 3"), ("quarantine", "Stage 2 of 3"), ("full", "Stage 3 of 3")]
)
def test_the_notes_say_which_stage_is_on(helm: Helm, tmp_path: Path, mode: str, words: str) -> None:
    copy = shutil.copytree(CHART, tmp_path / "wheeltapper")
    # helm prints notes after an install only: here they are rendered as the value of a ConfigMap.
    (copy / "templates/NOTES.txt").rename(copy / "NOTES.txt")
    (copy / "templates/configmap.yaml").write_text('data: {notes: {{ tpl (.Files.Get "NOTES.txt") . | quote }}}\n')
    ended = helm(
        "template", "wt", str(copy), f"--kube-version={KUBERNETES}", f"--set=config.policy.mode={mode}",
        "--show-only=templates/configmap.yaml",
    )  # fmt: skip

    assert words in yaml.safe_load(ended.stdout)["data"]["notes"]


def kinds(items: list[dict[str, Any]]) -> set[str]:
    return {each["kind"] for each in items}


def test_without_the_preflight_nobody_asks_the_operator_about_pods_and_it_may_delete_none(render: Render) -> None:
    items = render()
    rules = one(items, "ClusterRole", "wt-wheeltapper-operator")["rules"]

    assert not {"MutatingWebhookConfiguration", "Secret"} & kinds(items)
    assert not any("pods" in rule["resources"] and "delete" in rule["verbs"] for rule in rules)


def test_with_the_preflight_pods_ask_and_no_pod_waits_for_an_operator_that_is_gone(render: Render) -> None:
    items = render("--set=config.kubernetes.preflight.enabled=true")
    (hook,) = one(items, "MutatingWebhookConfiguration", "wt-wheeltapper-preflight")["webhooks"]
    text = one(items, "ConfigMap", "wt-wheeltapper")["data"]["wheeltapper.json"]
    preflight = config.parse(text, "wheeltapper.json").kubernetes.preflight

    assert (hook["failurePolicy"], hook["namespaceSelector"]) == (
        "Ignore",
        {"matchLabels": {"wheeltapper.dev/preflight": "enabled"}},
    )
    assert hook["clientConfig"]["service"]["name"] == preflight.service
    assert one(items, "Secret", preflight.secret)
    assert preflight.configuration == "wt-wheeltapper-preflight"
    assert preflight.image == "wheeltapper:0.1.0"


def test_what_reaches_the_kubelets_socket_has_root_and_nothing_else(render: Render) -> None:
    items = render("--set=config.kubernetes.preflight.enabled=true")
    pod = one(items, "DaemonSet", "wt-wheeltapper-agent")["spec"]["template"]["spec"]
    reaching = [
        each
        for each in [*pod["initContainers"], *pod["containers"]]
        if any(mount["name"] == "the-pod-resources" for mount in each["volumeMounts"])
    ]

    assert [each["name"] for each in reaching] == ["pod-resources"]
    assert reaching[0]["securityContext"] == {
        "runAsUser": 0,
        "runAsNonRoot": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [mount["name"] for mount in reaching[0]["volumeMounts"]] == ["the-pod-resources", "pod-resources"]
