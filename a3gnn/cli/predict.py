"""`a3gnn predict`: predicts nodes of a graph with a trained model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a3gnn.cli.completion import DATASET
from a3gnn.cli.help import Command
from a3gnn.cli.options import SIZE_LIMIT, Parsed, disk_limit_option, import_from_here, target_option
from a3gnn.cli.output import JSON, QUIET, progress, show, show_json
from a3gnn.errors import UsageError
from a3gnn.metric import HEURISTICS, ROW_MODELS

if TYPE_CHECKING:
    from a3gnn.apply.predict import ScratchDtype


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
#: Models of nodes without a graph network, and scores of links, as values of --heuristic.
_NODES, _LINKS = ([name.replace(" ", "-") for name in names] for names in (ROW_MODELS, HEURISTICS))
#: What a model of values of edges predicts (`SavedModel.predicts`), and what the model that reads an option predicts.
_EDGES = "values of edges"
_READ_BY = {"--top": "links", "--at": "links", "--edges": _EDGES, "--scratch-dtype": "nodes"}


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
@disk_limit_option
@click.option(
    "--scratch-dtype",
    type=click.Choice(["float32", "float16"]),
    help="Layers' rows in scratch files; float16 rounds them and takes half of the disk. Default: float32.",
)
@click.option(
    "--heuristic",
    type=click.Choice([*_LINKS, *_NODES]),
    help="Score of links, or model of nodes without a graph network, in place of MODEL.",
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
@JSON
def predict(
    model: Path | None,
    dataset: str,
    out: Path,
    heuristic: str | None,
    host_memory_limit: int | None,
    scratch_dtype: ScratchDtype | None,
    top: int | None,
    at: float | None,
    edges: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Predict every node, the best links, or edges of a graph with MODEL, the folder of a training or its model.pt.

    FILE.npy gets a float32 array with one row per node: the probability of each class, the probability of each label
    (several labels per node), or the value (a regression). Predictions use all in-neighbors, without sampling.

    Without MODEL, --heuristic linear, mlp, boosting or neighbor-boosting trains a model without a graph network first.

    With a model of links, it gets a table with a row per source and relation: `relation`, `source`, and the `target`
    and `score` of its best new links. Without MODEL, give --target and --heuristic. If links have times, they are
    predicted for one time, and may repeat. With a model of values of edges, a row has `source`, `target`, and `value`,
    or the `probability` of each class. Rows are computed and written some at a time.
    """
    from a3gnn.apply.predict import check_one, save_predictions
    from a3gnn.apply.predict_links import save_edges, save_links
    from a3gnn.graphs.as_graph import as_graph
    from a3gnn.storage.atomic import replacing
    from a3gnn.storage.cache_content import remove_abandoned
    from a3gnn.storage.claim import claimed_whole
    from a3gnn.training.saved_model import SavedModel

    _check(out)
    check_one(model, heuristic)
    with claimed_whole(out, progress(quiet)):
        _check(out)  # another process may have created the file meanwhile
        saved = None if model is None else SavedModel.read(model)
        graph: Any = as_graph(dataset) if heuristic in _NODES else dataset
        target = saved.target if saved is not None else graph.target if heuristic in _NODES else "links"
        if saved is not None and saved.task.is_own:
            import_from_here()
        predicts = target if saved is None else saved.predicts
        kind = _checked_kind(predicts, {"--top": top, "--at": at, "--edges": edges, "--scratch-dtype": scratch_dtype})
        given: dict[str, Any] = {"host_memory_limit": host_memory_limit, "notify": progress(quiet)}
        remove_abandoned(out)
        with replacing(out) as draft:
            if saved is not None and kind == _EDGES:
                shape: tuple[int, ...] = save_edges(draft, saved, dataset, edges and _pairs(edges), **given)
            elif kind == "links" and heuristic not in _NODES:
                shape = save_links(draft, saved, dataset, top or 10, heuristic=heuristic, at=at, **given)
            else:
                given |= {"scratch_dtype": scratch_dtype or "float32", "heuristic": heuristic}
                shape = save_predictions(draft, saved, graph, **given)
    if as_json:
        show_json({"file": str(out), "target": target, "shape": list(shape)})
    else:
        of, dtype = " of edges" * (kind == _EDGES), "float32, " * (kind == "nodes")
        show(f"Saved {_WHAT[target]}{of} to {out} ({dtype}{' x '.join(f'{length:,}' for length in shape)})")


def _checked_kind(predicts: str, options: Mapping[str, Any]) -> str:
    """Returns whether nodes, links or values of edges are predicted; refuses options that the model does not read."""
    kind = predicts if predicts in ("links", _EDGES) else "nodes"
    for name, value in options.items():
        if value is not None and _READ_BY[name] != kind:
            raise UsageError(f"{name} needs a model of {_READ_BY[name]}, got one of {predicts}; leave it out")
    return kind


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
