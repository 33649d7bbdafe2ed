"""`a3gnn predict`: predicts nodes of a graph with a trained model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a3gnn.cli.completion import DATASET
from a3gnn.cli.help import Command
from a3gnn.cli.options import SIZE_LIMIT, Parsed, import_from_here
from a3gnn.cli.output import QUIET, progress, show
from a3gnn.errors import UsageError


def moment(text: str) -> float:
    """Returns `text` as a number, exactly if it is a whole one."""
    try:
        return int(text) if text.strip().lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise UsageError(f"--at must be a number, in the unit of the graph's times, got {text}") from None


_WHAT = {
    "classes": "class probabilities",
    "labels": "label probabilities",
    "values": "predicted values",
    "links": "the best new links",
}


@click.command(cls=Command)
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--dataset",
    type=DATASET,
    required=True,
    help="Graph: FILE.npz, a folder, synthetic:..., pyg:NAME, ogb:NAME or DATA.pt.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE.npy", help="New file for the predictions."
)
@click.option("--host-memory-limit", type=SIZE_LIMIT, help="Memory limit; the command stops beyond it.")
@click.option("--top", type=click.IntRange(1), help="Links of each source, with a model of links. Default: 10.")
@click.option(
    "--at",
    type=Parsed("time", moment),
    metavar="TIME",
    help="Time of the predicted links, if links have times. Default: after the last.",
)
@QUIET
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def predict(
    model: Path,
    dataset: str,
    out: Path,
    host_memory_limit: int | None,
    top: int | None,
    at: float | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Predict every node, or the best links, of a graph with MODEL, the folder of a training or its model.pt.

    FILE.npy gets a float32 array with one row per node: the probability of each class, the probability of each label
    (several labels per node), or the value (a regression). Predictions use all in-neighbors, without sampling.

    With a model of links, it gets a table with a row per source and relation: `relation`, `source`, and the `target`
    and `score` of its best new links. If links have times, they are predicted for one time, and may repeat. Sources are
    computed and written some at a time.
    """
    import numpy as np

    from a3gnn.apply.predict import predict as run
    from a3gnn.apply.predict_links import save_links
    from a3gnn.storage.atomic import replacing
    from a3gnn.storage.claim import claimed_whole
    from a3gnn.training.saved_model import SavedModel

    _check(out)
    with claimed_whole(out, progress(quiet)):
        _check(out)  # another process may have created the file meanwhile
        saved = SavedModel.read(model)
        if saved.task.is_own:
            import_from_here()
        for name, value in (("--top", top), ("--at", at)):
            if saved.target != "links" and value is not None:
                raise UsageError(f"{name} needs a model of links, got one of {saved.target}; leave it out")
        given: dict[str, Any] = {"host_memory_limit": host_memory_limit, "notify": progress(quiet)}
        with replacing(out) as draft:
            if saved.target == "links":
                shape = save_links(draft, saved, dataset, top or 10, at=at, **given)
            else:
                found = run(saved, dataset, **given).numpy()
                np.save(draft, found)
                shape = found.shape
    if as_json:
        click.echo(json.dumps({"file": str(out), "target": saved.target, "shape": list(shape)}))
    else:
        size = " x ".join(f"{length:,}" for length in shape)
        show(f"Saved {_WHAT[saved.target]} to {out} ({'float32, ' * (saved.target != 'links')}{size})")


def _check(out: Path) -> None:
    if out.suffix != ".npy" or out.exists():
        raise UsageError(f"--out must be a new file FILE.npy, got {out}{', which exists' if out.exists() else ''}")
