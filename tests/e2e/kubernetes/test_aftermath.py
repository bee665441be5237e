"""What becomes of nodes and jobs after a fault: the way back, who else has to leave, who holds a gang up, and who is told.

The chart is installed with all that a site may switch on.
"""

from __future__ import annotations

import json
import re
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes import release
from tests.e2e.kubernetes.cluster import BASE_IMAGE, GPU, MACHINE, Cluster, Node, started
from tests.e2e.kubernetes.gangs import (
    SOON_S,
    TRAINS,
    anew,
    gang,
    interruption,
    is_out,
    leaving_soon,
    node_of,
    reasons,
    training,
)
from wheeltapper import kubernetes_names as names

BOOT_ID = "sys/kernel/random/boot_id"
DEAD_AFTER_S = 10

VALUES: dict[str, Any] = {
    **release.VALUES,
    "config": {
        **release.CONFIG,
        "policy": {"mode": "full", "release": {"hold_s": 3}, "probation_max_nodes": 1},
        "kubernetes": {"evict": True, "dead_nodes": "delete_pods", "dead_after_s": DEAD_AFTER_S},
        "agent": {"procfs": "/host/proc"},
    },
    "agent": {
        **release.VALUES["agent"],
        "hostMounts": [{"name": "proc", "hostPath": f"{MACHINE}/proc", "mountPath": "/host/proc"}],
    },
    "monitoring": {"enabled": True},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of these tests' own: they break its nodes."""
    with (
        tempfile.TemporaryDirectory(prefix="wheeltapper-kubernetes-") as place,
        started(Path(place, "cluster")) as made,
    ):
        for node in made.workers:
            give_a_boot_id(node)
        release.build_image(made, Path(place))
        release.install(made, VALUES)
        made.wait(lambda: all(release.verdict(made, name) == "ok" for name in made.nodes), SOON_S, "all agents")
        yield made


def give_a_boot_id(node: Node) -> None:
    """Make a procfs for the agent that is the machine's own but for its boot id, which is then the node's."""
    proc = node.folder / "proc"
    mirror(Path("/proc"), proc, Path(BOOT_ID).parts)
    (proc / BOOT_ID).write_text(Path("/proc", BOOT_ID).read_text())
    node.run("mount", "--bind", f"{MACHINE}/proc/{BOOT_ID}", f"/proc/{BOOT_ID}")


def mirror(real: Path, copy: Path, way: tuple[str, ...]) -> None:
    """Make the folder *copy* with links to all that is in *real*, but for processes and the file to which *way* leads."""
    copy.mkdir()
    for entry in real.iterdir():
        if entry.name != way[0] and not entry.name.isdigit():
            (copy / entry.name).symlink_to(entry)
    if len(way) > 1:
        mirror(real / way[0], copy / way[0], way[1:])


def reboot(cluster: Cluster, node: Node) -> str:
    """Boot *node* anew, as far as kubelet and agent can tell; return its new boot id. Its kernel log begins anew."""
    boot = str(uuid.uuid4())
    (node.folder / "proc" / BOOT_ID).write_text(f"{boot}\n")
    node.kmsg.write_text("")
    node.run("systemctl", "restart", "kubelet")
    agent = release.agent_on(cluster, node.name)
    cluster.kubectl("delete", "pod", agent, f"--namespace={release.NAMESPACE}", "--grace-period=1")
    return boot


def test_a_node_that_was_rebooted_and_passes_its_checks_comes_back(cluster: Cluster, mended: list[Node]) -> None:
    node = cluster.workers[0]
    mended.append(node)
    node.xid(79)
    cluster.wait(lambda: is_out(cluster, node.name), SOON_S, f"{node.name} to be taken out")
    boot = reboot(cluster, node)
    cluster.wait(lambda: not is_out(cluster, node.name), SOON_S, f"{node.name} to come back")
    found = cluster.get("node", node.name) or {}

    assert found["status"]["nodeInfo"]["bootID"] == boot
    assert not found["spec"].get("unschedulable")
    assert "Released" in reasons(cluster, node.name)
    assert json.loads(found["metadata"]["annotations"][names.HISTORY])[-1]["outcome"] == "released"


def test_a_large_gang_that_moves_had_better_not_use_a_node_that_was_out_before(
    cluster: Cluster, job: str, mended: list[Node]
) -> None:
    once = cluster.workers[0]
    mended.append(once)
    once.xid(79)
    cluster.wait(lambda: is_out(cluster, once.name), SOON_S, f"{once.name} to be taken out")
    reboot(cluster, once)
    cluster.wait(lambda: not is_out(cluster, once.name), SOON_S, f"{once.name} to come back")
    cluster.apply(training(job, 3, TRAINS))
    before = cluster.wait(lambda: gang(cluster, job), SOON_S, f"all ranks of {job}")
    used = {pod["spec"]["nodeName"] for pod in before.values()}
    node = next(node for node in cluster.workers[1:] if node.name in used)
    mended.append(node)
    node.xid(79)
    after = anew(cluster, job, before)

    rather_not = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [once.name]}
    for pod in after.values():
        rules = pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert rules == [{"weight": 100, "preference": {"matchExpressions": [rather_not]}}]
        assert pod["spec"]["nodeName"] != node.name
    annotations = (cluster.get("pytorchjob", job) or {})["metadata"]["annotations"]
    assert json.loads(annotations[names.AVOIDED]) == [once.name]
    assert json.loads(annotations[names.EXCLUDED]) == [node.name]


def test_a_node_that_a_person_has_put_back_stays_in_on_the_same_evidence(cluster: Cluster, mended: list[Node]) -> None:
    mine, other, _ = cluster.workers
    mended += [mine, other]
    mine.xid(79)
    cluster.wait(lambda: is_out(cluster, mine.name), SOON_S, f"{mine.name} to be taken out")
    cluster.kubectl("uncordon", mine.name)
    cluster.wait(lambda: not is_out(cluster, mine.name), SOON_S, f"our taint on {mine.name} to go, too")
    # An operator that knows nothing but the cluster looks at all nodes anew, and acts on one that is broken.
    pods = ("delete", "pod", f"--namespace={release.NAMESPACE}", "--selector=app.kubernetes.io/component=operator")
    cluster.kubectl(*pods, "--grace-period=1")
    other.xid(79)
    cluster.wait(lambda: is_out(cluster, other.name), SOON_S, f"{other.name} to be taken out")

    assert release.verdict(cluster, mine.name) == "fail"
    assert not is_out(cluster, mine.name)
    assert "ReleasedByPerson" in reasons(cluster, mine.name)


def test_a_pod_with_a_gpu_has_to_leave_a_broken_node_when_its_disruption_budget_allows(
    cluster: Cluster, mended: list[Node]
) -> None:
    node = cluster.workers[1]
    mended.append(node)
    container = {"name": "main", "image": BASE_IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
    meta = {"namespace": "default", "labels": {"app": "notebook"}}
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node.name},
        "terminationGracePeriodSeconds": 0,
        "containers": [{**container, "resources": {"limits": {GPU: 1}}}],
    }
    without = {**spec, "containers": [container]}
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "notebook"}}}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "name": "notebook"}, "spec": spec},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "shell"}, "spec": without},
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {**meta, "name": "keep"},
            "spec": budget,
        },
    )
    try:
        for name in ("notebook", "shell"):
            cluster.wait_condition("pod", name, "Ready", timeout=SOON_S)
        cluster.wait(lambda: healthy(cluster, "keep") == 1, SOON_S, "the budget to have counted its pod")
        node.xid(79)
        cluster.wait(lambda: "EvictionWaits" in reasons(cluster, node.name), SOON_S, "the budget to forbid it")
        kept = cluster.get("pod", "notebook") or {}
        cluster.kubectl("delete", "poddisruptionbudget", "keep")
        cluster.wait(lambda: not cluster.get("pod", "notebook"), SOON_S, "the notebook to leave")

        assert kept["status"]["phase"] == "Running"
        assert "deletionTimestamp" not in kept["metadata"]
        assert "Evicted" in reasons(cluster, node.name)
        assert (cluster.get("pod", "shell") or {})["status"]["phase"] == "Running", "it has no GPU"
    finally:
        cluster.kubectl("delete", "pod", "notebook", "shell", "--ignore-not-found")
        cluster.kubectl("delete", "poddisruptionbudget", "keep", "--ignore-not-found")


def healthy(cluster: Cluster, budget: str) -> int:
    found = cluster.get("poddisruptionbudget", budget) or {}
    return int(found.get("status", {}).get("currentHealthy", 0))


def test_a_gang_does_not_wait_for_a_node_that_is_dead_where_its_site_says_so(cluster: Cluster, job: str) -> None:
    cluster.apply(leaving_soon(training(job, 3, TRAINS, "OnFailure")))
    before = cluster.wait(lambda: gang(cluster, job), SOON_S, f"all ranks of {job}")
    node = node_of(cluster, before, f"{job}-worker-0")
    node.stop_kubelet()
    try:
        after = anew(cluster, job, before, timeout=300)
    finally:
        node.start_kubelet()
        cluster.wait_condition("node", node.name, "Ready", timeout=SOON_S)

    assert interruption(cluster, job)["label"] == "hardware/node_down"
    assert "PodDeleted" in reasons(cluster, job)
    assert node.name not in {pod["spec"]["nodeName"] for pod in after.values()}


def test_prometheus_is_told_by_operators_and_agents(cluster: Cluster) -> None:
    """The last one here: what the ones before it have broken is in the counts."""
    operators = scraped(cluster, "operator", 9470)
    agents = scraped(cluster, "agent", 9469)

    assert sum(value(text, "wheeltapper_operator_leads") for text in operators) == 1
    assert sum(value(text, 'wheeltapper_interruptions_total{label="hardware/node_down"}') for text in operators) >= 1
    assert sum(value(text, 'wheeltapper_quarantines_total{outcome="done"}') for text in operators) >= 1
    assert all(value(text, 'wheeltapper_operator_info{mode="full",version="0.1.0"}') == 1 for text in operators)
    assert [value(text, 'wheeltapper_node_verdict{state="ok"}') for text in agents] == [1.0] * len(cluster.workers)


def scraped(cluster: Cluster, component: str, port: int) -> list[str]:
    """What each pod of *component* tells at *port*, through the API server."""
    pods = cluster.objects("pods", release.NAMESPACE, f"app.kubernetes.io/component={component}")
    path = f"/api/v1/namespaces/{release.NAMESPACE}/pods/{{}}:{port}/proxy/metrics"
    return [cluster.kubectl("get", f"--raw={path.format(pod['metadata']['name'])}") for pod in pods]


def value(text: str, name: str) -> float:
    """The value of the series *name* in what was scraped; 0 when it is not there."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0
