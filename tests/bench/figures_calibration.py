"""Does the confidence of a diagnosis mean something? Measured on the public cases with labels, where they are at hand.

The cases are the development split, which the rules were written with in sight: the figure is in-sample, and says how
the levels of confidence lie to each other rather than how often a new log is answered rightly.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.bench.harness import Figure
from tests.shared import SHARED
from wheeltapper.catalogue import load
from wheeltapper.diagnosis.advice import nothing_happened
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.inputs import conclude
from wheeltapper.scan.inputs import inputs, read

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(os.environ.get("WHEELTAPPER_CASES") or SHARED / "corpus" / "cases")
"""Another folder of cases in the same form gives a figure that is not in-sample."""

WINDOW_S = 1800.0


def figures(_runs: int) -> Iterator[Figure]:
    """Print how often each level of confidence is right, and yield the Brier score (0 is best) beside a coin's."""
    if not CASES.is_dir():
        print(f"calibration: {CASES} is not here, so it is not measured")
        return
    answered = [each for each in map(_answer, sorted(CASES.iterdir())) if each is not None]
    levels: dict[float, list[bool]] = defaultdict(list)
    for confidence, right in answered:
        levels[confidence].append(right)
    print("confidence   cases   right")
    for confidence, rights in sorted(levels.items()):
        print(f"{confidence:10.2f}   {len(rights):5d}   {sum(rights) / len(rights):5.0%}")
    score = _brier(answered)
    coin = _brier((0.5, right) for _, right in answered)
    yield Figure(
        "diagnosis_brier", round(score, 4), "Brier", "always half sure", coin, round(score / coin, 4), len(answered)
    )


def _brier(answers: Iterable[tuple[float, bool]]) -> float:
    squares = [(confidence - right) ** 2 for confidence, right in answers]
    return sum(squares) / len(squares)


def _answer(folder: Path) -> tuple[float, bool] | None:
    """Return confidence and whether the kind is right; None for a case whose right answer is to say nothing."""
    told = tomllib.loads((folder / "case.toml").read_text(encoding="utf-8"))
    files = [each for each in inputs([folder]) if each.path.name != "case.toml"]
    catalogue = load()
    case = conclude([read(each, catalogue) for each in files], [each.name for each in files])
    answer = diagnose(case.findings, case.attempt, window_s=WINDOW_S)
    if answer.root is None or nothing_happened(answer):
        return None
    return answer.confidence, answer.label in {told["label"], *told.get("accept", [])}
