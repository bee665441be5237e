"""``wheeltapper explain JOB``: why a job's attempts stopped and what was done, from the ledger."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from wheeltapper.cli.common import NOT_FOUND, ConfigOption, JsonOption, told


def explain(
    job: Annotated[str, typer.Argument(help="The job's id as the scheduler shows it, such as 1234 or 1234_7.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell why each attempt of a job stopped, on which evidence, and what was done.

    Exit codes: 0 told, 2 the configuration or the ledger is wrong, 3 nothing is recorded of this job.
    """
    import json

    from wheeltapper import codec
    from wheeltapper import config as configuration
    from wheeltapper.ledger.store import Ledger
    from wheeltapper.ledger.story import story

    with told("explain"), closing(Ledger.of(configuration.load(config), read_only=True)) as ledger:
        attempts = [(each, ledger.acts(attempt=each.attempt.key)) for each in ledger.interruptions(job=job)]
    if as_json:
        value = [{**codec.dump(each), "acts": [codec.dump(act) for act in acts]} for each, acts in attempts]
        typer.echo(json.dumps(value, indent=2))
    elif attempts:
        typer.echo("\n\n".join(story(number, each, acts) for number, (each, acts) in enumerate(attempts, start=1)))
    else:
        typer.echo(f"no interruption of job {job} is recorded", err=True)
    if not attempts:
        raise typer.Exit(NOT_FOUND)
