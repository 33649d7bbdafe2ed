"""`a3gnn tune --machines all`: the same command on several kinds of machines at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from a3gnn.cli.output import progress
from a3gnn.profiling.executor_choice import ExecutorChoice


def tune_machines(choice: ExecutorChoice, asked: Mapping[str, Any], quiet: bool, as_json: bool) -> None:
    """Tunes on each kind of machines, and prints which is best and what each one's choice reaches.

    Args:
        choice: The cluster, and the kinds.
        asked: The command's options as `tune` takes them.
        quiet: Whether progress is left out.
        as_json: Whether one JSON object is printed.

    Raises:
        A3GNNError: None of the tunes has chosen.
        UsageError: An option is not what it must be.
    """
    from a3gnn.tuning.run.machines import machines_lines, ranked, why_no_best
    from a3gnn.tuning.run.machines import tune_machines as run
    from a3gnn.tuning.study.arguments import check_places

    arguments = {**asked, "task": asked["task"].to_dict()}
    resume = arguments.pop("resume")
    out: Path | None = arguments.pop("out")
    if out is None:
        check_places(out, asked["store"], resume)
    found = run(choice, choice.kinds(), out, arguments, resume=resume, notify=progress(quiet))
    if as_json:
        machines = [one.to_dict() for one in ranked(found)]
        click.echo(json.dumps({"machines": machines, "no_best": why_no_best(found)}, indent=2))
        return
    if not quiet:
        click.echo(err=True)
    for line in machines_lines(found):
        click.echo(line)
