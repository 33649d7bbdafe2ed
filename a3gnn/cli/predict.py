"""`a3gnn predict`: predicts nodes of a graph with a trained model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a3gnn.cli.completion import DATASET
from a3gnn.cli.help import Command
from a3gnn.cli.options import SIZE_LIMIT, import_from_here, target_option
from a3gnn.cli.output import QUIET, progress, show
from a3gnn.errors import UsageError

_WHAT = {
    "classes": "class probabilities",
    "labels": "label probabilities",
    "values": "predicted values",
    "links": "the best new links",
}


@click.command(cls=Command)
@click.argument("model", type=click.Path(path_type=Path), required=False)
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
@click.option(
    "--heuristic",
    type=click.Choice(("popularity", "item-neighbors")),
    help="Score of links in place of MODEL; it needs no training.",
)
@target_option
@click.option("--top", type=click.IntRange(1), help="Links of each source, with a model of links. Default: 10.")
@QUIET
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def predict(
    model: Path | None,
    dataset: str,
    out: Path,
    heuristic: str | None,
    host_memory_limit: int | None,
    top: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Predict every node, or the best links, of a graph with MODEL, the folder of a training or its model.pt.

    FILE.npy gets a float32 array with one row per node: the probability of each class, the probability of each label
    (several labels per node), or the value (a regression). Predictions use all in-neighbors, without sampling.

    With a model of links, it gets a table with a row per source and relation: `relation`, `source`, and the `target`
    and `score` of its best new links. Sources are computed and written some at a time. --heuristic needs no MODEL, but
    --target.
    """
    import numpy as np

    from a3gnn.apply.predict import predict as run
    from a3gnn.apply.predict_links import save_links
    from a3gnn.storage.atomic import replacing
    from a3gnn.storage.claim import claimed_whole
    from a3gnn.training.saved_model import SavedModel

    _check(out)
    if (model is None) == (heuristic is None):
        raise UsageError(f"give MODEL or --heuristic, got {'both' if heuristic else 'neither'}")
    with claimed_whole(out, progress(quiet)):
        _check(out)  # another process may have created the file meanwhile
        saved = None if model is None else SavedModel.read(model)
        target = "links" if saved is None else saved.target
        if saved is not None and saved.task.is_own:
            import_from_here()
        if target != "links" and top is not None:
            raise UsageError(f"--top needs a model of links, got one of {target}; leave it out")
        given: dict[str, Any] = {"host_memory_limit": host_memory_limit, "notify": progress(quiet)}
        with replacing(out) as draft:
            if saved is None or target == "links" or heuristic:
                shape = save_links(draft, saved, dataset, top or 10, heuristic=heuristic, **given)
            else:
                found = run(saved, dataset, **given).numpy()
                np.save(draft, found)
                shape = found.shape
    if as_json:
        click.echo(json.dumps({"file": str(out), "target": target, "shape": list(shape)}))
    else:
        size = " x ".join(f"{length:,}" for length in shape)
        show(f"Saved {_WHAT[target]} to {out} ({'float32, ' * (target != 'links')}{size})")


def _check(out: Path) -> None:
    if out.suffix != ".npy" or out.exists():
        raise UsageError(f"--out must be a new file FILE.npy, got {out}{', which exists' if out.exists() else ''}")
