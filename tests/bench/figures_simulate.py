"""The effective training time ratio of the policy's defaults on the public trace, and on histories that are not it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.harness import Figure
from tests.shared import SHARED
from tests.unit.simulate import histories
from wheeltapper.config import PolicySection
from wheeltapper.simulate.model import STRATEGIES, Settings
from wheeltapper.simulate.run import replay
from wheeltapper.simulate.trace import Trace, load

TRACE = SHARED / "data" / "infinitehbd" / "fault_trace.json"
NODES, JOB_NODES, SEEDS = 400, 320, 5


def figures(_runs: int) -> Iterator[Figure]:
    """Yield the mean over the seeds, a checkpoint an hour that costs nothing: 2,560 GPUs, then made-up histories."""
    if TRACE.exists():
        traces = [load(TRACE, NODES)] * SEEDS
        yield from _beside("ettr_infinitehbd", traces, Settings(JOB_NODES))
        yield from _beside("ettr_infinitehbd_every_entry", traces, Settings(JOB_NODES, every_entry_ends=True))
    else:
        print(f"simulate: {TRACE} is not here, so it is not measured")
    for kind in histories.KINDS:
        name = "ettr_" + kind.name.replace(", ", "_").replace(" ", "_")
        traces = [histories.made_up(kind, seed) for seed in range(SEEDS)]
        yield from _beside(name, traces, Settings(histories.NODES * 4 // 5))


def _beside(figure: str, traces: list[Trace], settings: Settings) -> Iterator[Figure]:
    """Yield our mean over *traces*, each with a seed of its own, beside that of every other strategy."""
    means = {
        strategy.name: sum(
            replay(trace, strategy, settings, PolicySection(), seed).ettr for seed, trace in enumerate(traces)
        )
        / len(traces)
        for strategy in STRATEGIES
    }
    ours = means.pop(STRATEGIES[0].name)
    for name, mean in means.items():
        yield Figure(figure, round(ours, 4), "", name, round(mean, 4), round(ours / mean, 4), len(traces))
