"""`a3gnn surrogate`: scores the surrogate's predictions on held-out measurements."""

from __future__ import annotations

import click

from a3gnn.cli.output import QUIET, progress
from a3gnn.profiling.store.existing import DEFAULT_STORE


@click.group()
def surrogate() -> None:
    """Say how well the surrogate predicts what it has not seen."""


@surrogate.command(short_help="Score the surrogate on measurements that it has not seen.")
@click.option(
    "--store", help=f"Measurements beside the shipped ones, a path or a database URL; {DEFAULT_STORE} if any."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of folds and trees.")
@QUIET
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def card(store: str | None, seed: int, quiet: bool, as_json: bool) -> None:
    """Score the surrogate, and simpler models, on measurements that they have not seen.

    Held out are rows at random, whole graphs, and whole graphs except their default configuration or ten rows. Each
    model is fitted anew for every fold, which takes from several minutes to over half an hour; progress is printed.
    """
    from a3gnn.notify import ConversionProgress
    from a3gnn.profiling.store.existing import existing_rows
    from a3gnn.profiling.store.jsonl import shipped_measurements
    from a3gnn_surrogate.evaluate import evaluate

    rows = [*shipped_measurements(), *existing_rows(store)]
    found = evaluate(rows, seed=seed, progress=ConversionProgress(progress(quiet)))
    click.echo(found.to_json() if as_json else found.to_markdown(), nl=as_json)
