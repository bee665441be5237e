"""What a prolog costs each job, all checks on: with a current verdict, and when the agent has to be asked."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.harness import Figure, compared, in_turn, process_ms
from tests.integration.node import HOOKS, Node

EMPTY = "empty sh script"
PYDANTIC = "python importing pydantic"


def figures(runs: int) -> Iterator[Figure]:
    """Yield the figures of the prolog, in milliseconds from its start to its end."""
    folder = Path(tempfile.mkdtemp(prefix="wheeltapper-bench-"))
    node = Node(folder / "node")
    try:
        node.configure(checks={"off": []})
        node.start()
        if node.state not in {"ok", "warn"}:
            raise RuntimeError(f"the agent did not start: {node.log}")
        yield from _measure(folder, node, runs)
    finally:
        node.close()
        shutil.rmtree(folder)


def _measure(folder: Path, node: Node, runs: int) -> Iterator[Figure]:
    empty = folder / "empty"
    empty.write_text("#!/bin/sh\nexit 0\n")
    empty.chmod(0o755)
    # The agent's socket without its verdict: what a stub sees when the verdict has expired.
    no_verdict = folder / "asking"
    no_verdict.mkdir()
    (no_verdict / "agent.sock").symlink_to(node.run_dir / "agent.sock")
    (node.folder / "hooks.conf").write_text(f"python={sys.executable}\n")
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "1000", "SLURM_JOB_GPUS": "0,1,2,3", "SLURMD_NODENAME": "n1"}
    environment = {**node.environment, **job}
    prolog = [str(HOOKS / "prolog")]
    asking = {**environment, "WHEELTAPPER_RUN_DIR": str(no_verdict)}
    samples = in_turn(
        {
            EMPTY: partial(process_ms, [str(empty)], environment),
            "fast": partial(process_ms, prolog, environment),
            "agent": partial(process_ms, prolog, asking),
            PYDANTIC: partial(process_ms, [sys.executable, "-c", "import pydantic; pydantic.BaseModel"], environment),
        },
        runs,
        "prolog",
    )
    if node.hooks_log or (no_verdict / "hooks.log").exists():
        raise RuntimeError("the agent did not answer every hook")
    fast, agent = samples["fast"], samples["agent"]
    yield compared("prolog_fast_path_ms", fast, "ms", EMPTY, samples[EMPTY], 0.5)
    yield compared("prolog_fast_path_p99_ms", fast, "ms", EMPTY, samples[EMPTY], 0.99)
    yield compared("prolog_agent_path_ms", agent, "ms", EMPTY, samples[EMPTY], 0.5)
    yield compared("prolog_agent_path_ms", agent, "ms", PYDANTIC, samples[PYDANTIC], 0.5)
    yield compared("prolog_agent_path_p99_ms", agent, "ms", EMPTY, samples[EMPTY], 0.99)
