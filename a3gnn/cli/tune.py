"""`a3gnn tune`: find the best training configuration for a graph on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a3gnn.cli.options import BUDGET, FANOUTS, LIMIT, MODEL, SIZE
from a3gnn.config import KNOBS
from a3gnn.domains import Size
from a3gnn.errors import UsageError
from a3gnn.task import Task
from a3gnn.units import parse_size


@click.command()
@click.option("--dataset", required=True, help="FILE.npz, a folder, synthetic:..., pyg:NAME, ogb:NAME or DATA.pt.")
@click.option("--model", type=MODEL, default="sage", show_default=True)
@click.option("--fanouts", type=FANOUTS, default="25,10", show_default=True, help="Neighbours per node, one per layer.")
@click.option("--hidden", type=click.IntRange(1), default=256, show_default=True, help="Width of the hidden layers.")
@click.option(
    "--priority", default="throughput", show_default=True, help="time, throughput, memory, accuracy, balanced, T,M,A."
)
@click.option(
    "--memory-limit",
    type=LIMIT,
    help="Of the GPU where there is one, of the host otherwise: such as 4GiB, or default for what the default takes.",
)
@click.option("--host-memory-limit", type=SIZE, help="Of the host, beside a GPU.")
@click.option("--max-accuracy-drop", type=float, default=1.0, show_default=True, help="Points below the default.")
@click.option("--budget", type=BUDGET, default="5min", show_default=True, help="A duration, or a number of trials.")
@click.option("--engine", default="local", show_default=True, help="local, ppo, nsga2, tpe, random or exhaustive.")
@click.option("--fix", "fixed", multiple=True, metavar="KNOB=VALUE", help="Fix a knob; may be repeated.")
@click.option("--range", "ranges", multiple=True, metavar="KNOB=LOW:HIGH", help="Restrict a knob; may be repeated.")
@click.option("--target-accuracy", type=float, help="In percent; by default the default's best less the drop.")
@click.option(
    "--accuracy-epochs", type=click.IntRange(1), help="Epochs of the default; by default until it stops rising."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--store", help="Where measurements are kept: a path or a database URL; DIR/profiles.sqlite by default.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="A new folder; runs/GRAPH by default.")
@click.option("--resume", is_flag=True, help="Go on with the tune in --out.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def tune(
    dataset: str,
    model: Any,
    fanouts: tuple[int, ...],
    hidden: int,
    fixed: tuple[str, ...],
    ranges: tuple[str, ...],
    seed: int,
    resume: bool,
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the best training configuration for a graph on this machine.

    Measures the default configuration, searches what a surrogate predicts, measures what matters, and writes
    DIR/tuned.json, front.csv and front.png. The choice keeps the memory limit as measured.
    """
    knobs, cuts = dict(map(_fix, fixed)), dict(map(_range, ranges))
    task = Task(model=model, fanouts=fanouts, hidden_channels=hidden, seed=seed)
    from a3gnn.tuning.tune import tune as run

    result = run(dataset, task=task, fix=knobs, ranges=cuts, seed=seed, resume=resume, out=out, notify=_say, **options)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2))
        return
    from a3gnn.report.text import front_table, print_table

    click.echo(err=True)
    print_table(front_table(result.front))
    click.echo(f"\n{result.folder}/tuned.json, front.csv and front.png are written; train with it:")
    click.echo(f"  a3gnn train --config {result.folder}/tuned.json")


def _say(line: str) -> None:
    click.echo(line, err=True)


def _fix(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise UsageError(f"--fix must be KNOB=VALUE such as batch_size=512, got {text!r}")
    return name, _value(name, value)


def _range(text: str) -> tuple[str, tuple[Any, Any]]:
    name, sign, values = text.partition("=")
    low, colon, high = values.partition(":")
    if not (name and sign and low and colon and high):
        raise UsageError(f"--range must be KNOB=LOW:HIGH such as batch_size=256:4096, got {text!r}")
    return name, (_value(name, low), _value(name, high))


def _value(knob: str, text: str) -> Any:
    """Returns the value as the space takes it: sizes may have units."""
    sizes = {known.name for known in KNOBS if isinstance(known.domain, Size)}
    return parse_size(text) if knob in sizes and text != "0" else text
