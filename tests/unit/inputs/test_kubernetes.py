"""Objects and events of Kubernetes."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.unit.inputs.given import labels, moment, of, only, told
from wheeltapper.evidence import Role, Source


def pod(name: str = "bert-worker-1", job: str | None = "bert", **status: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"training.kubeflow.org/job-name": job} if job else {}},
        "spec": {"nodeName": "gpu-7", "containers": [{"name": "pytorch"}]},
        "status": status,
    }


def condition(reason: str, message: str = "", status: str = "True") -> dict[str, str]:
    return {
        "lastTransitionTime": "2026-04-21T11:52:37Z",
        "message": message,
        "reason": reason,
        "status": status,
        "type": "DisruptionTarget",
    }


def ended(reason: str, code: int = 137, message: str = "") -> dict[str, object]:
    terminated = {"exitCode": code, "finishedAt": "2026-04-21T11:53:08Z", "reason": reason, "message": message}
    return {"name": "pytorch", "state": {"terminated": terminated}}


def waiting(reason: str, message: str = "") -> dict[str, object]:
    return {"name": "pytorch", "state": {"waiting": {"reason": reason, "message": message}}}


@pytest.mark.parametrize(
    ("status", "label"),
    [
        ({"conditions": [condition("EvictionByEvictionAPI", "Eviction API: evicting")]}, "scheduler/evicted"),
        ({"conditions": [condition("PreemptionByScheduler", "default-scheduler: preempting")]}, "scheduler/preempted"),
        ({"conditions": [condition("DeletionByPodGC", "PodGC: node no longer exists")]}, "hardware/node_down"),
        (
            {
                "conditions": [
                    condition("TerminationByKubelet", "Pod was terminated in response to imminent node shutdown.")
                ]
            },
            "scheduler/maintenance",
        ),
        (
            {
                "reason": "Evicted",
                "message": "Pod ephemeral local storage usage exceeds the total limit of containers 20Gi. ",
            },
            "resource/disk_full",
        ),
        ({"reason": "Evicted", "message": "The node was low on resource: memory."}, "scheduler/evicted"),
        ({"reason": "DeadlineExceeded", "message": "Pod was active on the node longer than"}, "scheduler/time_limit"),
        ({"containerStatuses": [ended("OOMKilled")]}, "resource/host_oom"),
        ({"containerStatuses": [waiting("CreateContainerConfigError", 'secret "k" not found')]}, "software/config"),
        ({"containerStatuses": [waiting("ImagePullBackOff", "Back-off pulling image")]}, "software/config"),
        (
            {"containerStatuses": [waiting("ErrImagePull", "dial tcp: lookup reg.local: no such host")]},
            "network/dns",
        ),
        (
            {"initContainerStatuses": [waiting("ErrImagePull", "net/http: TLS handshake timeout")]},
            "network/remote_storage",
        ),
    ],
)
def test_what_pods_say(status, label):
    for name, text in (("pod.json", json.dumps(pod(**status), indent=2)), ("pod.yaml", yaml.safe_dump(pod(**status)))):
        finding = only(of({name: text}))
        assert (finding.label, finding.evidence.source, finding.evidence.node) == (label, Source.SCHEDULER, "gpu-7")
        line = text.splitlines()[(finding.evidence.line or 0) - 1]
        assert ("message" in line) or ("reason" in line)


def test_a_condition_that_was_taken_back_says_nothing_and_a_plain_error_only_that_it_failed():
    assert (
        of({"p.json": json.dumps(pod(conditions=[condition("PreemptionByScheduler", status="False")]))}).findings == ()
    )
    failed = only(of({"p.json": json.dumps(pod(containerStatuses=[ended("Error", 1), ended("Completed", 0)]))}))
    assert (failed.label, failed.role) == ("unknown/unknown", Role.SYMPTOM)


def test_a_container_that_was_started_again_tells_its_last_end():
    status = {
        "containerStatuses": [{"name": "pytorch", "lastState": ended("OOMKilled")["state"], "state": {"running": {}}}]
    }
    finding = only(of({"p.json": json.dumps(pod(**status))}))
    assert (finding.label, finding.evidence.at) == ("resource/host_oom", moment("2026-04-21T11:53:08"))


def test_the_last_words_of_a_container_are_read_as_its_log():
    words = "step 5\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    found = of({"p.json": json.dumps(pod(containerStatuses=[ended("Error", 1, words)]))})
    assert [(each.label, each.evidence.source) for each in found.findings] == [("software/oom", Source.JOB_LOG)]


def test_tabs_in_json_and_lists_are_read():
    pods = {"apiVersion": "v1", "kind": "List", "items": [pod(), pod("bert-worker-2", reason="Evicted")]}
    text = json.dumps(pods, indent="\t")
    finding = only(of({"pods.json": text}))
    assert '"Evicted"' in text.splitlines()[(finding.evidence.line or 0) - 1]
    assert text.encode()[finding.evidence.offset :].lstrip().startswith(b'"reason"')


def test_an_object_whose_version_was_cut_off_is_read_all_the_same():
    whole = pod(reason="Evicted", message="The node was low on resource: memory.")
    cut = {key: value for key, value in whole.items() if key != "apiVersion"}
    assert labels(of({"pod.json": json.dumps(cut, indent=1)})) == ["scheduler/evicted"]
    assert labels(of({"pod.yaml": yaml.safe_dump(cut)})) == ["scheduler/evicted"]
    assert of({"notes.json": '{"kind": "Poem", "metadata": {}, "reason": "Evicted"}'}).findings == ()


def test_a_node_that_stopped_reporting_is_down_and_a_healthy_one_silent():
    def node(ready: str) -> str:
        ready_condition = {"type": "Ready", "status": ready, "message": "Kubelet stopped posting node status."}
        pressure = {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"}
        meta = {"name": "gpu-7"}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": meta,
            "status": {"conditions": [pressure, ready_condition]},
        }
        return json.dumps(body, indent=1)

    assert [row[:2] for row in told(of({"node.json": node("Unknown")}))] == [("hardware/node_down", "gpu-7")]
    assert of({"node.json": node("True")}).findings == ()


EVENTS = """LAST SEEN   TYPE      REASON               OBJECT              MESSAGE
4h49m       Normal    SuccessfulCreatePod  pytorchjob/bert     Created pod: bert-worker-1
15m         Warning   Evicted              pod/other-0         The node was low on resource: memory.
6m40s       Normal    LowNodeUtilization   pod/bert-worker-1   pod evicted from gpu-7 node by sigs.k8s.io/descheduler
6m40s       Normal    Killing              pod/bert-worker-1   Stopping container pytorch
"""


def test_in_the_table_of_events_only_this_jobs_count():
    assert told(of({"events.txt": EVENTS})) == [("scheduler/evicted", None, "events.txt", 4)]


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (
            "Warning  FailedCreatePod  pytorchjob/bert  Error creating: pods is forbidden: exceeded quota: gpus",
            "scheduler/quota",
        ),
        (
            "Normal   Killing  pod/bert-worker-1  Container pytorch failed liveness probe, will be restarted",
            "software/config",
        ),
        (
            "Warning  PyTorchJobFailed  pytorchjob/bert  PyTorchJob bert was active longer than specified deadline",
            "scheduler/time_limit",
        ),
        (
            "Normal   EvictedDueToPreempted  workload/pytorchjob-bert-2e1  Preempted to accommodate a workload (UID: 0d3f)",
            "scheduler/preempted",
        ),
        (
            "Normal   Stopped  pytorchjob/bert  Preempted to accommodate a workload (UID: 0d3f, JobUID: 9c2) due to x",
            "scheduler/preempted",
        ),
        ("Warning  PreemptScheduled  node/gpu-7  VM is to be preempted", "scheduler/preempted"),
        ("Normal   ScaleDown  pod/bert-worker-1  deleting pod for node scale down", "scheduler/evicted"),
        (
            "Warning  TaintManagerEviction  pod/bert-worker-1  Marking for deletion Pod ml/bert-worker-1",
            "scheduler/evicted",
        ),
    ],
)
def test_reasons_of_events(event, label):
    found = of({"events.txt": f"LAST SEEN   TYPE  REASON  OBJECT  MESSAGE\n2m  {event}\n"})
    assert [each.label for each in found.findings if each.role is Role.ROOT] == [label]


def test_a_taint_that_was_taken_back_evicts_nobody():
    event = "Normal  TaintManagerEviction  pod/bert-0  Cancelling deletion of Pod ml/bert-0"
    assert of({"events.txt": f"LAST SEEN   TYPE  REASON  OBJECT  MESSAGE\n2m  {event}\n"}).findings == ()


def test_without_a_job_every_event_counts():
    assert [row[3] for row in told(of({"events.txt": EVENTS.replace("pytorchjob/bert ", "service/bert    ")}))] == [
        3,
        4,
    ]


def test_events_as_objects_carry_their_time_and_node():
    event = {
        "apiVersion": "v1", "kind": "Event", "reason": "NodeNotReady", "message": "Node is not ready",
        "lastTimestamp": "2026-04-21T11:52:37Z", "involvedObject": {"kind": "Node", "name": "gpu-7"},
    }  # fmt: skip
    found = of(
        {"e.json": json.dumps({"apiVersion": "v1", "kind": "EventList", "items": [event]}), "p.json": json.dumps(pod())}
    )
    finding = only(found)
    assert (finding.label, finding.evidence.node, finding.evidence.at) == (
        "hardware/node_down",
        "gpu-7",
        moment("2026-04-21T11:52:37"),
    )
    elsewhere = json.dumps({**event, "involvedObject": {"kind": "Node", "name": "gpu-9"}})
    assert of({"e.json": elsewhere, "p.json": json.dumps(pod())}).findings == ()


def test_a_rejected_pod_is_a_symptom_of_a_missing_device():
    message = "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu."
    finding = only(of({"p.json": json.dumps(pod(reason="UnexpectedAdmissionError", message=message))}))
    assert (finding.label, finding.role) == ("hardware/gpu_lost", Role.SYMPTOM)


def test_a_pods_counters_are_its_nodes():
    stat = "# bert-worker-1 2024-02-11T08:02:00Z /sys/fs/cgroup/memory.events\noom_kill 1\n"
    found = of({"p.json": json.dumps(pod()), "cgroup.txt": stat})
    assert told(found) == [("resource/host_oom", "gpu-7", "cgroup.txt", 2)]


PLUGIN = """I0305 07:11:02.104410       1 server.go:195] Starting GRPC server for 'nvidia.com/gpu'
I0305 09:41:22.119018       1 health.go:159] Skipping event {{Device:{{}} EventType:8 EventData:43}}
I0305 10:00:52.004411       1 health.go:184] XidCriticalError: Xid={code} on Device=GPU-7d0c8f35-1c55-6a0e; marking device as unhealthy.
"""


def test_the_device_plugin_tells_xids_of_its_node_which_the_catalogue_weighs():
    finding = only(of({"nvidia-device-plugin-gpu-node-07.log": PLUGIN.format(code=79)}))
    assert (
        finding.detail,
        finding.convicts,
        finding.evidence.node,
        finding.evidence.gpu_uuid,
        finding.evidence.line,
    ) == (
        "xid=79",
        True,
        "gpu-node-07",
        "GPU-7d0c8f35-1c55-6a0e",
        3,
    )
    assert [each.convicts for each in of({"plugin.log": PLUGIN.format(code=31)}).findings] == [False]


def test_what_is_no_object_is_silent():
    for text in (
        "apiVersion: v1\nkind: [",
        '{"apiVersion": "v1", "kind": 5}',
        "apiVersion: v1\nkind: Pod\nstatus: 7\n",
    ):
        assert of({"x.yaml": text}).findings == ()


def test_torchruns_error_file_tells_the_exception_and_its_rank():
    stack = 'Traceback (most recent call last):\n  File "t.py", line 3\n    raise KeyError("CUDA out of memory")\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n'
    content = {
        "message": {
            "message": "OutOfMemoryError: CUDA out of memory.",
            "extraInfo": {"py_callstack": stack, "timestamp": "1717430000"},
        }
    }
    found = of({"attempt_0-rank5-error.json": json.dumps(content)})
    assert set(labels(found)) == {"software/oom", "unknown/unknown"}
    assert {(each.evidence.rank, each.evidence.at, each.evidence.line) for each in found.findings} == {
        (5, 1717430000.0, 1)
    }
