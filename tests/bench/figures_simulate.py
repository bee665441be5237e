"""The effective training time ratio of the policy's defaults on the public trace, beside a person who drains."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.harness import Figure
from tests.shared import SHARED
from wheeltapper.config import PolicySection
from wheeltapper.simulate.model import STRATEGIES, Settings
from wheeltapper.simulate.run import replay
from wheeltapper.simulate.trace import load

TRACE = SHARED / "data" / "infinitehbd" / "fault_trace.json"
NODES, JOB_NODES, SEEDS = 400, 320, 5


def figures(_runs: int) -> Iterator[Figure]:
    """Yield the mean over the seeds: 2,560 GPUs, a checkpoint an hour that costs nothing."""
    if not TRACE.exists():
        print(f"simulate: {TRACE} is not here, so it is not measured")
        return
    trace = load(TRACE, NODES)
    ettr = {
        strategy.name: [
            replay(trace, strategy, Settings(JOB_NODES), PolicySection(), seed).ettr for seed in range(SEEDS)
        ]
        for strategy in STRATEGIES
    }
    means = {name: sum(values) / len(values) for name, values in ettr.items()}
    ours = STRATEGIES[0].name
    for name, mean in means.items():
        if name != ours:
            yield Figure("ettr_infinitehbd", round(means[ours], 4), "", name, mean, round(means[ours] / mean, 4), SEEDS)
