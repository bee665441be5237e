"""Makes the chart's values.schema.json: ``python -m charts.values_schema``.

The configuration in the values is the configuration's own model, so that a wrong key is refused at ``helm install``
and not by a pod that does not start.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from wheeltapper.config import Config

TARGET = Path(__file__).with_name("wheeltapper") / "values.schema.json"

Json = dict[str, Any]


class Values(BaseModel):
    """A group of values: what is not named here is refused."""

    model_config = ConfigDict(extra="forbid")


class Image(Values):
    """The image of operator and agents."""

    repository: str = Field(min_length=1)
    tag: str
    pullPolicy: Literal["Always", "IfNotPresent", "Never"]  # noqa: N815 - Kubernetes' own word


class Workload(Values):
    """What the pods of operator and agents have in common; the inner parts are Kubernetes' own."""

    resources: Json
    nodeSelector: dict[str, str]  # noqa: N815
    tolerations: list[Json]
    affinity: Json
    priorityClassName: str  # noqa: N815
    podAnnotations: dict[str, str]  # noqa: N815


class Operator(Workload):
    """The operator's Deployment."""

    replicas: int = Field(ge=0)


class Host(Values):
    """Where things are on a node."""

    kernelLog: str = Field(pattern="^/")  # noqa: N815
    sysfs: str = Field(pattern="^/")
    state: str = Field(pattern="^/")
    podResources: str = Field(pattern="^/")  # noqa: N815


class HostMount(Values):
    """One more file or folder of the node."""

    name: str = Field(pattern="^[a-z0-9-]{1,50}$")
    hostPath: str = Field(pattern="^/")  # noqa: N815
    mountPath: str = Field(pattern="^/")  # noqa: N815


class Agent(Workload):
    """The agents' DaemonSet."""

    runtimeClassName: str  # noqa: N815
    env: dict[str, str]
    host: Host
    hostMounts: list[HostMount]  # noqa: N815


class Switch(Values):
    """Something that can be left out."""

    enabled: bool


class Labelled(Switch):
    """Objects that others look for by their labels."""

    labels: dict[str, str]


class Monitoring(Switch):
    """Metrics, alert rules and the dashboard."""

    prometheusOperator: Labelled  # noqa: N815
    dashboard: Labelled


class Chart(Values):
    """All values."""

    image: Image
    imagePullSecrets: list[str]  # noqa: N815
    config: Config
    operator: Operator
    agent: Agent
    admissionPolicy: Switch  # noqa: N815
    monitoring: Monitoring
    cleanUp: Switch  # noqa: N815


def schema() -> Json:
    """Return the schema. Nothing is required of a user: helm has merged the defaults in before it looks."""
    made = Chart.model_json_schema()
    made["properties"]["global"] = {"type": "object", "description": "helm's own, for charts above this one."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def text() -> str:
    """Return the file's content."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
