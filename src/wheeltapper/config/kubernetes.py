"""The part of the configuration that only clusters of Kubernetes have."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from wheeltapper.config.section import Seconds, Section


class PodPreflightSection(Section):
    """The check of a node by the pods that land on it: a webhook gives them an init container that asks the agent."""

    enabled: bool = Field(False, description="Serve the webhook, and answer to pods.")
    image: str = Field("", description="The image of the init container: this program's own.")
    python: str = Field("python3", description="The interpreter in that image.")
    port: int = Field(9443, ge=1, le=65535, description="Where each operator serves the webhook.")
    service: str = Field("wheeltapper-webhook", description="The Service before it: the certificate is made out to it.")
    secret: str = Field("wheeltapper-webhook", description="The Secret that holds the certificate and its authority.")
    configuration: str = Field(
        "wheeltapper-preflight", description="The MutatingWebhookConfiguration that is told whom to trust."
    )
    listen: str | None = Field(
        None, description="The address at which operators and agents listen. Absent: all that they have."
    )
    agent_port: int = Field(6830, ge=1, le=65535, description="The port there.")
    agent_host: str = Field(
        "",
        description="Where pods reach it: a Service with internalTrafficPolicy Local. Empty: their node's own address.",
    )
    deadline_s: int = Field(
        120,
        ge=5,
        le=180,
        description="After so many seconds the pod starts, answer or none: its peers give up after 200 s.",
    )
    pass_valid_s: Seconds = Field(
        60.0,
        strict=False,
        description="For so long the next pod on the same GPUs needs no new look at anything but the kernel log.",
    )
    gpu_resources: tuple[str, ...] = Field(
        ("nvidia.com/",),
        strict=False,
        description="Resources that are GPUs: a name, or a prefix that ends in a slash.",
    )
    pod_resources: Path = Field(
        Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
        strict=False,
        description="The kubelet's socket that says which pod has which GPUs.",
    )

    def is_gpu(self, resource: str) -> bool:
        """Return whether a pod that asks for *resource* asks for a GPU."""
        return any(
            resource == each or (each.endswith("/") and resource.startswith(each)) for each in self.gpu_resources
        )


class KubernetesSection(Section):
    """How the operator works in its cluster."""

    namespace: str = Field("wheeltapper", description="The namespace of the operator's own lease and secrets.")
    pool_label: str = Field(
        "node.kubernetes.io/instance-type",
        description="The label of a node that names its pool: the budget's percentage is of a pool's nodes.",
    )
    domain_label: str = Field(
        "topology.kubernetes.io/zone", description="The label of a node that names its failure domain."
    )
    writes_per_s: Seconds = Field(
        200.0, strict=False, description="Writes a second in the long run: a tenth of what a small API server takes."
    )
    writes_burst: int = Field(100, ge=1, description="Writes at once before that.")
    evict: bool = Field(
        False,
        description=(
            "Evict pods with GPUs from nodes that are out, as far as their disruption budgets allow. Those of training"
            " jobs move with their gang."
        ),
    )
    dead_nodes: Literal["leave", "delete_pods"] = Field(
        "leave",
        description=(
            "What becomes of a moving gang's pods on a node that does not answer. delete_pods: they are deleted without"
            " its word, and may run on there: only where two that write the same files do no harm."
        ),
    )
    dead_after_s: Seconds = Field(
        300.0,
        strict=False,
        description="A node that was not ready for so long is dead: after that time Kubernetes itself gives pods up.",
    )
    preflight: PodPreflightSection = PodPreflightSection()
