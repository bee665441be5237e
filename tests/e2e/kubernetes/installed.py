"""Operator and agents on a cluster, with the rights that each needs for the preflight: the image built, manifests applied.

The chart is what people install; this is as little as the tests of the preflight need.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.kubernetes.cluster import BASE_IMAGE, MACHINE, Cluster
from wheeltapper import kubernetes_names as names

CHECKOUT = Path(__file__).parents[3]
IMAGE = "localhost/wheeltapper:preflight"
NAMESPACE = "wheeltapper"
WEBHOOK_PORT, AGENT_PORT = 9443, 6830
USER = 65532

DOCKERFILE = f"""
FROM {BASE_IMAGE}
COPY wheels /wheels
RUN python3 -m venv /opt/wheeltapper \\
 && /opt/wheeltapper/bin/pip install --quiet --no-index --find-links /wheels 'wheeltapper[kubernetes]' \\
 && rm -r /wheels
ENV PATH=/opt/wheeltapper/bin:/usr/sbin:/usr/bin:/sbin:/bin PYTHONUNBUFFERED=1
USER {USER}:{USER}
ENTRYPOINT ["wheeltapper"]
"""

SETTINGS = f"""
[agent]
scheduler = "kubernetes"
kmsg = "{MACHINE}/kmsg"
[policy]
mode = "full"
[kubernetes.preflight]
enabled = true
image = "{IMAGE}"
pod_resources = "/run/pod-resources/kubelet.sock"
"""

Json = dict[str, Any]


def build_image(cluster: Cluster, folder: Path) -> None:
    """Build the image of this checkout in *folder*, and bring it onto all nodes."""
    wheels = folder / "wheels"
    said = cluster.docker.call("run", "--rm", "--network=none", BASE_IMAGE, "python3", "--version")
    python = ".".join(said.split()[1].split(".")[:2])
    machine = platform.machine()
    for command in (
        ["build", "--wheel", "--outdir", str(wheels), str(CHECKOUT)],
        [
            "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", f"--dest={wheels}",
            f"--python-version={python}", f"--platform=manylinux2014_{machine}",
            f"--platform=manylinux_2_28_{machine}", f"--find-links={wheels}", "wheeltapper[kubernetes]",
        ],
    ):  # fmt: skip
        subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)
    (folder / "Dockerfile").write_text(DOCKERFILE)
    cluster.build(folder, IMAGE)


@contextmanager
def wheeltapper(cluster: Cluster) -> Iterator[None]:
    """Have operator and agents run, and take them and all that they left off again."""
    cluster.apply(CHECKOUT / "charts/wheeltapper/crds", *_objects())
    try:
        cluster.wait_condition("deployment", "operator", "Available", NAMESPACE, 180)
        cluster.wait(lambda: agents(cluster) == len(cluster.workers), 180, "an agent on every worker")
        cluster.wait(lambda: _is_trusted(cluster), 60, "the API server to be told whom to trust")
        yield
    finally:
        _remove(cluster)


def agents(cluster: Cluster) -> int:
    """How many agents are ready."""
    found = cluster.get("daemonset", "agent", NAMESPACE) or {}
    return int(found.get("status", {}).get("numberReady", 0))


def _is_trusted(cluster: Cluster) -> bool:
    found = cluster.get("mutatingwebhookconfiguration", "wheeltapper-preflight")
    return bool(found and found["webhooks"][0]["clientConfig"].get("caBundle"))


def _remove(cluster: Cluster) -> None:
    for kind, name in (
        ("mutatingwebhookconfiguration", "wheeltapper-preflight"),
        ("namespace", NAMESPACE),
        ("clusterrolebinding", "wheeltapper-operator"),
        ("clusterrolebinding", "wheeltapper-agent"),
        ("clusterrole", "wheeltapper-operator"),
        ("clusterrole", "wheeltapper-agent"),
    ):
        cluster.kubectl("delete", kind, name, "--ignore-not-found", timeout=180)
    for node in cluster.workers:
        cluster.kubectl("taint", "node", node.name, f"{names.TAINT}-", check=False)
        cluster.kubectl("uncordon", node.name)
        cluster.kubectl("annotate", "node", node.name, f"{names.QUARANTINE}-", f"{names.HISTORY}-")
    cluster.kubectl("delete", "--filename", str(CHECKOUT / "charts/wheeltapper/crds"), timeout=180)


def _objects() -> list[Json]:
    accounts = [_object("v1", "ServiceAccount", name) for name in ("operator", "agent")]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *accounts,
        *_rights("operator", _OPERATOR_RULES),
        *_rights("agent", _AGENT_RULES),
        {**_object("v1", "ConfigMap", "wheeltapper"), "data": {"wheeltapper.toml": SETTINGS}},
        _service(),
        _operator(),
        _agent(),
        _configuration(),
    ]


def _object(group: str, kind: str, name: str, **rest: Any) -> Json:
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, **rest}


def _rule(group: str, resources: str, verbs: str, **more: Any) -> Json:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **more}


_OPERATOR_RULES = [
    _rule("", "nodes", "get list watch patch"),
    _rule("", "pods", "get list watch delete"),
    _rule("", "pods/log", "get"),
    _rule("", "events", "get list create patch"),
    _rule("kubeflow.org", "pytorchjobs", "get list watch patch"),
    _rule("kubeflow.org", "pytorchjobs/status", "patch"),
    _rule("batch", "jobs", "get list watch patch"),
    _rule("wheeltapper.dev", "nodehealths", "list watch"),
    _rule("wheeltapper.dev", "interruptions", "get list create"),
    _rule("coordination.k8s.io", "leases", "get create update"),
    _rule("", "secrets", "create"),
    _rule("", "secrets", "list watch update", resourceNames=["wheeltapper-webhook"]),
    _rule(
        "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "list watch patch",
        resourceNames=["wheeltapper-preflight"],
    ),
]  # fmt: skip

_AGENT_RULES = [
    _rule("", "nodes/status", "patch"),
    _rule("wheeltapper.dev", "nodehealths", "get create"),
    _rule("wheeltapper.dev", "nodehealths/status", "patch"),
    _rule("authentication.k8s.io", "tokenreviews", "create"),
]


def _rights(name: str, rules: list[Json]) -> list[Json]:
    group, named = "rbac.authorization.k8s.io", f"wheeltapper-{name}"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": named}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    return [
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": named}, "rules": rules},
        {
            "apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": named},
            "roleRef": role, "subjects": [subject],
        },
    ]  # fmt: skip


def _service() -> Json:
    ports = [{"port": 443, "targetPort": WEBHOOK_PORT}]
    return _object("v1", "Service", "wheeltapper-webhook", spec={"selector": {"app": "operator"}, "ports": ports})


def _container(name: str, **rest: Any) -> Json:
    return {"name": name, "image": IMAGE, "imagePullPolicy": "Never", **rest}


def _mount(name: str, path: str) -> Json:
    return {"name": name, "mountPath": path}


def _host(name: str, path: str) -> Json:
    return {"name": name, "hostPath": {"path": path}}


_CONFIG = {"name": "config", "configMap": {"name": "wheeltapper"}}
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def _workload(kind: str, name: str, spec: Json, **rest: Any) -> Json:
    labels = {"app": name}
    pod = {"serviceAccountName": name, "terminationGracePeriodSeconds": 2, **spec}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return _object("apps/v1", kind, name, spec={"selector": {"matchLabels": labels}, "template": template, **rest})


def _operator() -> Json:
    ready = {"httpGet": {"path": "/ready", "port": WEBHOOK_PORT, "scheme": "HTTPS"}, "periodSeconds": 1}
    container = _container(
        "operator", args=["operator", "run"], readinessProbe={**ready, "timeoutSeconds": 10},
        securityContext=_RESTRICTED, volumeMounts=[_mount("config", "/etc/wheeltapper")],
    )  # fmt: skip
    # On the control plane, so that no test takes the operator away with a worker.
    there = {
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [{"operator": "Exists"}],
    }
    return _workload("Deployment", "operator", {"containers": [container], "volumes": [_CONFIG], **there}, replicas=2)


def _agent() -> Json:
    agent = _container(
        "agent", args=["agent", "run"], securityContext=_RESTRICTED,
        ports=[{"containerPort": AGENT_PORT, "hostPort": AGENT_PORT}],
        env=[{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        readinessProbe={"tcpSocket": {"port": AGENT_PORT}, "periodSeconds": 1, "timeoutSeconds": 10},
        volumeMounts=[
            _mount("config", "/etc/wheeltapper"), _mount("machine", MACHINE), _mount("run", "/run/wheeltapper"),
            _mount("state", "/var/lib/wheeltapper"), _mount("relay", "/run/pod-resources"),
        ],
    )  # fmt: skip
    sockets = ["/pod-resources/kubelet.sock", "/run/pod-resources/kubelet.sock"]
    relay = _container(
        "pod-resources", command=["python3", "-I", "-m", "wheeltapper_hooks.pod_resources_relay", *sockets],
        securityContext={**_RESTRICTED, "runAsNonRoot": False, "runAsUser": 0},
        volumeMounts=[_mount("relay", "/run/pod-resources"), _mount("pod-resources", "/pod-resources")],
    )  # fmt: skip
    volumes = [
        _CONFIG,
        _host("machine", MACHINE),
        _host("pod-resources", "/var/lib/kubelet/pod-resources"),
        *({"name": name, "emptyDir": {}} for name in ("run", "state", "relay")),
    ]
    not_control_plane = {"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"}
    terms = [{"matchExpressions": [not_control_plane, {"key": "type", "operator": "NotIn", "values": ["kwok"]}]}]
    pod = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        "containers": [agent, relay],
        "securityContext": {"fsGroup": USER},
        "tolerations": [{"operator": "Exists"}],
        "volumes": volumes,
    }
    return _workload("DaemonSet", "agent", pod)


def _configuration() -> Json:
    hook = {
        "name": "preflight.wheeltapper.dev",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "wheeltapper-webhook", "namespace": NAMESPACE, "path": "/preflight"}},
        "failurePolicy": "Ignore",
        "namespaceSelector": {"matchLabels": {names.PREFLIGHT: "enabled"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "sideEffects": "None",
        "timeoutSeconds": 5,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "wheeltapper-preflight"},
        "webhooks": [hook],
    }
