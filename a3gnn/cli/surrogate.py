"""`a3gnn surrogate`: scores the surrogate's predictions on held-out measurements."""

from __future__ import annotations

import click

from a3gnn.cli.help import Command
from a3gnn.cli.output import JSON, QUIET, progress
from a3gnn.profiling.store.existing import DEFAULT_STORE


@click.group()
def surrogate() -> None:
    """Score the surrogate, the model that predicts measurements."""


@surrogate.command(cls=Command, short_help="Score the surrogate on held-out measurements.")
@click.option(
    "--store",
    metavar="PATH|URL",
    help=f"Store of measurements to add to the shipped ones. Default: {DEFAULT_STORE}, if it exists.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of folds and trees.")
@QUIET
@JSON
def card(store: str | None, seed: int, quiet: bool, as_json: bool) -> None:
    """Score the surrogate and simpler models on held-out measurements, as Markdown.

    Holds out random rows, whole graphs, and whole graphs except their baseline or ten rows. Every fold fits every model
    again. Expect 10 to 60 minutes; the progress line estimates the rest.
    """
    from a3gnn.notify import ConversionProgress
    from a3gnn.profiling.store.existing import existing_rows
    from a3gnn.profiling.store.jsonl import shipped_measurements
    from a3gnn_surrogate.evaluate import evaluate

    rows = [*shipped_measurements(), *existing_rows(store)]
    found = evaluate(rows, seed=seed, progress=ConversionProgress(progress(quiet)))
    click.echo(found.to_json() if as_json else found.to_markdown(), nl=as_json)
