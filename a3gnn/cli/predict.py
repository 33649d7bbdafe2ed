"""`a3gnn predict`: predicts nodes of a graph with a trained model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a3gnn.cli.completion import DATASET
from a3gnn.cli.help import Command
from a3gnn.cli.options import SIZE_LIMIT, Parsed, import_from_here, target_option
from a3gnn.cli.output import QUIET, progress, show
from a3gnn.errors import UsageError
from a3gnn.metric import HEURISTICS


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
#: What a model of values of edges predicts (`SavedModel.predicts`).
_EDGES = "values of edges"


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
    type=click.Choice([name.replace(" ", "-") for name in HEURISTICS]),
    help="Score of links in place of MODEL; it needs no training.",
)
@target_option
@click.option("--top", type=click.IntRange(1), help="Links of each source, with a model of links. Default: 10.")
@click.option(
    "--at",
    type=Parsed("time", moment),
    metavar="TIME",
    help="Time of the predicted links, if links have times. Default: after the last.",
)
@click.option(
    "--edges",
    type=click.Path(path_type=Path),
    metavar="PAIRS.npy",
    help="Pairs of shape (2, n), with a model of values of edges. Default: edges without a value.",
)
@QUIET
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def predict(
    model: Path | None,
    dataset: str,
    out: Path,
    heuristic: str | None,
    host_memory_limit: int | None,
    top: int | None,
    at: float | None,
    edges: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Predict every node, the best links, or edges of a graph with MODEL, the folder of a training or its model.pt.

    FILE.npy gets a float32 array with one row per node: the probability of each class, the probability of each label
    (several labels per node), or the value (a regression). Predictions use all in-neighbors, without sampling.

    With a model of links, it gets a table with a row per source and relation: `relation`, `source`, and the `target`
    and `score` of its best new links. Without MODEL, give --target and --heuristic. If links have times, they are
    predicted for one time, and may repeat. With a model of values of edges, a row has `source`, `target`, and `value`,
    or the `probability` of each class. Rows are computed and written some at a time.
    """
    from a3gnn.apply.predict import save_predictions
    from a3gnn.apply.predict_links import heuristic_of, save_edges, save_links
    from a3gnn.storage.atomic import replacing
    from a3gnn.storage.claim import claimed_whole
    from a3gnn.training.saved_model import SavedModel

    _check(out)
    heuristic_of(model, heuristic)
    with claimed_whole(out, progress(quiet)):
        _check(out)  # another process may have created the file meanwhile
        saved = None if model is None else SavedModel.read(model)
        target = "links" if saved is None else saved.target
        if saved is not None and saved.task.is_own:
            import_from_here()
        predicts = target if saved is None else saved.predicts
        for name, value in (("--top", top), ("--at", at)):
            if target != "links" and value is not None:
                raise UsageError(f"{name} needs a model of links, got one of {predicts}; leave it out")
        if predicts != _EDGES and edges is not None:
            raise UsageError(f"--edges needs a model of {_EDGES}, got one of {predicts}; leave it out")
        given: dict[str, Any] = {"host_memory_limit": host_memory_limit, "notify": progress(quiet)}
        with replacing(out) as draft:
            if saved is None or target == "links":
                of_links = given | {"heuristic": heuristic, "at": at}
                shape: tuple[int, ...] = save_links(draft, saved, dataset, top or 10, **of_links)
            elif predicts == _EDGES:
                shape = save_edges(draft, saved, dataset, None if edges is None else _pairs(edges), **given)
            else:
                shape = save_predictions(draft, saved, dataset, **given)
    if as_json:
        click.echo(json.dumps({"file": str(out), "target": target, "shape": list(shape)}))
    else:
        size = " x ".join(f"{length:,}" for length in shape)
        of, kind = (" of edges", "") if predicts == _EDGES else ("", "float32, " * (target != "links"))
        show(f"Saved {_WHAT[target]}{of} to {out} ({kind}{size})")


def _pairs(path: Path) -> Any:
    """Returns the array in the .npy file at `path`."""
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"--edges must be an .npy file of pairs, but {path} can't be read: {error}") from error


def _check(out: Path) -> None:
    if out.suffix != ".npy" or out.exists():
        raise UsageError(f"--out must be a new file FILE.npy, got {out}{', which exists' if out.exists() else ''}")
