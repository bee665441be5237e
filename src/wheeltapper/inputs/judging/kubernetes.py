"""What the reasons that Kubernetes writes into pods, nodes, jobs and events mean.

Source: the API reference and the code of kubelet, scheduler, taint manager and Kueue; messages are matched where one
reason stands for several causes.
"""

from __future__ import annotations

import re

from wheeltapper.evidence import Role
from wheeltapper.inputs.model import Rule

_EVICTED = Rule("kubernetes.evicted", "scheduler/evicted", "Kubernetes evicted a pod of the job")
_PREEMPTED = Rule("kubernetes.preempted", "scheduler/preempted", "a pod of the job was preempted")
_CONFIG = Rule("kubernetes.config", "software/config", "a container could not be made as the pod asks for it")
_OOM = Rule("kubernetes.oom", "resource/host_oom", "a container was killed for want of memory")
_NODE_DOWN = Rule("kubernetes.node_down", "hardware/node_down", "Kubernetes lost a node of the job")
_TIME = Rule("kubernetes.deadline", "scheduler/time_limit", "the job's deadline was reached")
_QUOTA = Rule("kubernetes.quota", "scheduler/quota", "the namespace's quota is used up")
_DISK = Rule("kubernetes.storage_limit", "resource/disk_full", "a pod wrote more than its limit of local storage")
_SHUTDOWN = Rule("kubernetes.shutdown", "scheduler/maintenance", "a node of the job was shut down")
_NO_DEVICE = Rule(
    "kubernetes.device_missing",
    "hardware/gpu_lost",
    "a node had fewer devices than the scheduler thought",
    Role.SYMPTOM,
)
_PROBE = Rule("kubernetes.liveness", "software/config", "a liveness probe killed a container that was busy")
EXITED = Rule(
    "kubernetes.exited",
    "unknown/unknown",
    "a container ended with an exit code that is not zero, and its own log says why",
    Role.SYMPTOM,
)
_REGISTRY_DNS = Rule("kubernetes.registry_dns", "network/dns", "the registry's name was not found")
_REGISTRY = Rule("kubernetes.registry", "network/remote_storage", "the registry did not answer")

_TABLE: tuple[tuple[re.Pattern[str], re.Pattern[str], Rule], ...] = tuple(
    (re.compile(rf"^(?:{reason})$"), re.compile(message, re.IGNORECASE), rule)
    for reason, message, rule in (
        ("Evicted|TerminationByKubelet",
         r"ephemeral local storage usage exceeds|local ephemeral storage limit|usage of emptydir .* exceeds", _DISK),
        ("TerminationByKubelet|Terminated|NodeShutdown", "node shutdown", _SHUTDOWN),
        ("Terminated|Shutdown|NodeShutdown", "node is (?:in progress of )?shutting", _SHUTDOWN),
        ("TerminationByKubelet|Preempting", "preempt", _PREEMPTED),
        ("Evicted|TerminationByKubelet|EvictionByEvictionAPI|DeletionByTaintManager", "", _EVICTED),
        ("TaintManagerEviction", "marking for deletion", _EVICTED),
        # The clouds' own notices, as their node agents write them: a spot machine is taken back, or mended.
        ("PreemptScheduled|SpotInterruption|SpotITN|TerminateScheduled", "", _PREEMPTED),
        ("RebootScheduled|RedeployScheduled|FreezeScheduled", "", _SHUTDOWN),
        (r"\w+", r"\bevicted, because of (?:preempt|reclaim)", _PREEMPTED),
        (r"(?:Workload)?EvictedDueToPreempted", "", _PREEMPTED),
        (r"(?:Workload)?EvictedDueTo\w+", "", _EVICTED),
        (r"\w+", r"^preempted to accommodate a ", _PREEMPTED),
        (r"\w+", r"node removed by cluster autoscaler|deleting pod for node scale down", _EVICTED),
        (r"\w+", r"\bpod evicted from \S+ node by ", _EVICTED),
        ("PreemptionByScheduler|PreemptionByKubeScheduler|Preempted|Preempting", "", _PREEMPTED),
        ("OOMKilled|OOMKilling|SystemOOM", "", _OOM),
        ("DeletionByPodGC|NodeLost|NodeNotReady|NodeStatusUnknown|Rebooted", "", _NODE_DOWN),
        ("DeadlineExceeded", "", _TIME),
        (r"\w+", "active longer than specified deadline", _TIME),
        ("Killing", "failed liveness probe", _PROBE),
        ("FailedCreate|FailedScheduling|FailedCreatePod", "exceeded quota", _QUOTA),
        ("CreateContainerConfigError|InvalidImageName|ErrImageNeverPull", "", _CONFIG),
        ("Failed|FailedMount", r'(?:secret|configmap) "[^"]+" not found|couldn.t find key', _CONFIG),
        ("Failed|ErrImagePull|ImagePullBackOff", "no such host", _REGISTRY_DNS),
        ("Failed|ErrImagePull|ImagePullBackOff", "i/o timeout|handshake timeout|connection (?:refused|reset)|50[234]",
         _REGISTRY),
        ("ErrImagePull|ImagePullBackOff", "", _CONFIG),
        ("Failed", "failed to pull image", _CONFIG),
        ("StartError|ContainerCannotRun|RunContainerError|CreateContainerError",
         "no such file|not found|permission", _CONFIG),
        ("UnexpectedAdmissionError", "devices unavailable|allocate failed", _NO_DEVICE),
    )
)  # fmt: skip


def rule_for(reason: str, message: str) -> Rule | None:
    """Return what *reason* with its *message* means, or None when it explains no interruption."""
    for said, more, rule in _TABLE:
        if said.match(reason) and more.search(message):
            return rule
    return None
