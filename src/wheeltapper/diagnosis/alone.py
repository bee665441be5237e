"""Did a coordinator wait for processes that could not come?"""

from __future__ import annotations

from collections.abc import Sequence

from wheeltapper.diagnosis.together import inferred
from wheeltapper.evidence import Finding

SILENT = "jax.task_silent"
LOOPBACK = "jax.loopback"


def with_nobody_else(told: Sequence[Finding]) -> list[Finding]:
    """Return *told*, and the configuration as the cause where all other tasks are missing at a loopback address.

    From another machine nobody reaches a coordinator there. On the same one a task may die, but all of them are
    missing only when they were never started.
    """
    at_home = next((each for each in told if each.signature == LOOPBACK), None)
    missing = {int(each.fields["listed"]) for each in told if each.signature == SILENT and each.fields.get("listed")}
    if at_home is None or not missing or missing != set(range(1, len(missing) + 1)):
        return list(told)
    summary = (
        f"none of the other {len(missing)} tasks came to the coordinator at {at_home.fields['address']}, "
        "an address that is reached from its own machine alone"
    )
    return [*told, inferred("alone", "software/config", summary, at_home)]
