"""What a node's agent tells Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from wheeltapper import __version__
from wheeltapper.verdict import State

Answers = Mapping[tuple[str, int], int]
"""How often each hook was answered with each exit code, since the agent started."""


def families(status: Mapping[str, Any], answers: Answers) -> Iterator[Metric]:
    """Yield the metrics from the agent's own *status* and the *answers* that it gave to hooks."""
    info = GaugeMetricFamily(
        "wheeltapper_agent_info", "1; the labels say which version runs in which mode.", labels=["version", "mode"]
    )
    info.add_metric([__version__, status["mode"]], 1)
    yield info
    verdict = GaugeMetricFamily("wheeltapper_node_verdict", "1 for the verdict on this node, else 0.", labels=["state"])
    for state in State:
        verdict.add_metric([state.value], float(status["verdict"]["state"] == state.value))
    yield verdict
    yield GaugeMetricFamily(
        "wheeltapper_agent_undelivered_reports",
        "Reports that the controller service has not answered yet.",
        value=float(status["undelivered"]),
    )
    yield GaugeMetricFamily(
        "wheeltapper_agent_trouble",
        "1 while the agent cannot keep its evidence on disk.",
        value=float(bool(status["trouble"])),
    )
    hooks = CounterMetricFamily(
        "wheeltapper_hook_answers", "Answers to Slurm's hooks by exit code.", labels=["hook", "code"]
    )
    for (hook, code), count in sorted(answers.items()):
        hooks.add_metric([hook, str(code)], count)
    yield hooks
