"""`predict_links`: the best links of each source by a trained model, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.apply.predict import check_types, own_model
from a3gnn.checks import checked_limit, whole_number
from a3gnn.errors import UsageError, unknown_name
from a3gnn.evaluation.link_evaluator import LinkEvaluator, block_bytes
from a3gnn.evaluation.link_quality import HEURISTICS, LinkScores, heuristic_scores
from a3gnn.evaluation.ranking import Score
from a3gnn.graphs.arrays import row_slots
from a3gnn.graphs.as_graph import as_graph
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.links import Links
from a3gnn.graphs.split import Split
from a3gnn.graphs.target import Target
from a3gnn.loader.seeds import InputNodes
from a3gnn.notify import listener
from a3gnn.option_names import option
from a3gnn.pipeline.pipeline import checked_device
from a3gnn.process.memory_guard import MemoryGuard
from a3gnn.storage.host_limits import evaluation_bytes
from a3gnn.training.compile_ahead import KernelSet, compile_ahead
from a3gnn.training.saved_model import SavedModel

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike


_NEEDS_LINKS = "{} needs links, so {} must be SOURCE,RELATION,TARGET"


class BestLinks(NamedTuple):
    """The best links of some sources by one relation, the best first.

    Attributes:
        relation: The relation, as (source type, name, target type).
        sources: Ids within their type, int64, shape (n,).
        targets: Ids within their type, int64, shape (n, k); -1 where a source has fewer candidates.
        scores: The model's scores, float32, shape (n, k); -inf there. They compare links of one source and relation.
    """

    relation: tuple[str, str, str]
    sources: Tensor
    targets: Tensor
    scores: Tensor


def predict_links(
    model: str | Path | SavedModel | None,
    dataset: GraphLike,
    *,
    heuristic: str | None = None,
    top: int = 10,
    sources: Any = None,
    host_memory_limit: str | int | None = None,
    device: str | None = None,
    notify: Callable[[str], None] | None = None,
) -> Iterator[BestLinks]:
    """Returns the best new links of each source, some sources at a time, in order.

    All links of the graph, those of validation and test included, are left out.

    Args:
        model: A model.pt from `train`, or its folder; or the result of `SavedModel.read`; or None with a heuristic.
        dataset: As in `train`, with the nodes of the model's training.
        heuristic: A score without a model, by all links of the graph: popularity or item-neighbors. The dataset names
            the links then, such as "target:user,rates,movie:movies.npz".
        top: Links of each source and relation.
        sources: Ids of sources in any order, or a bool mask over them; None takes all.
        host_memory_limit: As in `predict`.
        device: cpu or cuda; by default cuda if it is available.
        notify: Called with messages; by default they are printed, in a script to stderr.

    Raises:
        UsageError: An argument is invalid, or the model predicts nodes.
        ConfigError: The model.pt is missing, broken, or does not name its model.
        GraphError: The graph can't be read, or has other types, relations or nodes than the model's training.
        ModelError: Your own model can't be imported or built, or the weights don't fit the model.
        MemoryLimitError: The memory limit was passed.
        A3GNNError: A row of a node is not finite.
    """
    notify = listener(notify)
    limit = checked_limit(option("host_memory_limit"), host_memory_limit)
    saved, name = _checked(model, heuristic)
    top = whole_number("top", top, 1, "links of each source")
    place = torch.device(checked_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
    compile_ahead(KernelSet(), notify)
    if saved is None and isinstance(dataset, str) and not Target.in_spec(Split.in_spec(dataset)[1])[0].is_relation:
        raise UsageError(_NEEDS_LINKS.format(option("heuristic"), option("target")))
    graph = as_graph(dataset, target="" if saved is None or saved.types is None else saved.types.target)
    if saved is not None:
        check_types(saved, graph)
    if graph.links is None:
        raise UsageError(_NEEDS_LINKS.format(option("heuristic"), option("target")))
    asked = torch.from_numpy(InputNodes.of(sources, graph.links.num_nodes[0], name="sources").nodes).long()

    def scores(guard: MemoryGuard) -> Score:
        if saved is None:
            assert graph.links is not None, "checked"
            return heuristic_scores(name, graph.links, np.arange(graph.num_examples, dtype=np.int32))(True)
        return _scores_of(saved, graph, place, limit, guard, notify)(True)

    return _best(scores, graph, asked, min(top, graph.links.num_nodes[1]), limit)


def _checked(model: str | Path | SavedModel | None, heuristic: str | None) -> tuple[SavedModel | None, str]:
    """Returns the model of links, or None and the name of the score in its place.

    Raises:
        UsageError: Both or neither are given, or they predict no links.
    """
    if (model is None) == (heuristic is None):
        raise UsageError(f"predictions need a model or {option('heuristic')}, got {'both' if heuristic else 'neither'}")
    if heuristic is not None:
        known = [name.replace(" ", "-") for name in HEURISTICS]
        if heuristic not in known:
            raise unknown_name(option("heuristic"), heuristic, known)
        return None, HEURISTICS[known.index(heuristic)]
    saved = model if isinstance(model, SavedModel) else SavedModel.read(model)
    if saved.target != "links" or saved.types is None:
        raise UsageError(f"predict_links needs a model of links, got one of {saved.target}; a3gnn.predict takes it")
    return saved, ""


def save_links(path: Path, model: SavedModel | None, dataset: GraphLike, top: int, **options: Any) -> tuple[int, int]:
    """Writes the result of `predict_links` to an .npy file, block by block, and returns its rows and links of a row.

    A row has the fields `relation` (a place among the predicted relations), `source`, and `target` and `score`, of
    shape (k,) each.

    Args:
        path: The file.
        model: A trained model.
        dataset: As in `predict_links`.
        top: As in `predict_links`.
        options: Further arguments of `predict_links`.
    """
    found, rows, table = predict_links(model, dataset, top=top, **options), 0, None
    places: dict[tuple[str, str, str], int] = {}
    with path.open("wb") as file:
        for some in found:
            links = some.targets.shape[1]
            kind = [("relation", "i4"), ("source", "i8"), ("target", "i8", (links,)), ("score", "f4", (links,))]
            table = np.empty(len(some.sources), dtype=kind)
            table["relation"] = places.setdefault(some.relation, len(places))
            table["source"], table["target"], table["score"] = some.sources, some.targets, some.scores
            if not rows:
                _write_header(file, table.dtype, rows)
            file.write(table.tobytes())
            rows += len(table)
        assert table is not None, "there is a source"
        file.seek(0)
        _write_header(file, table.dtype, rows)
    return rows, table["target"].shape[1]


def _write_header(file: BinaryIO, kind: np.dtype[Any], rows: int) -> None:
    """Writes the header of an .npy file; its length is the same for any number of rows."""
    fields = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (rows,)}
    np.lib.format.write_array_header_1_0(file, fields)


def _scores_of(
    saved: SavedModel,
    graph: Graph,
    device: torch.device,
    limit: int | None,
    guard: MemoryGuard,
    notify: Callable[[str], None],
) -> LinkScores:
    """Returns the scores of a model of links."""
    model = own_model(saved, graph, device, notify)
    budget = evaluation_bytes(limit)
    evaluator = LinkEvaluator(graph, saved.task, model, device=device, budget_bytes=budget, on_chunk=guard.check)
    return evaluator.scores()


def _best(
    made: Callable[[MemoryGuard], Score], graph: Graph, asked: Tensor, top: int, limit: int | None
) -> Iterator[BestLinks]:
    """Yields the best links of the sources `asked` by the scores that `made` makes, within the memory `limit`."""
    links, budget = graph.links, evaluation_bytes(limit)
    assert links is not None
    with MemoryGuard(limit) as guard:
        scores = made(guard)
        known, wide = _Known.of(links), links.num_candidates(True)
        step = max(1, block_bytes(budget) // (4 * wide))
        for kind, relation in enumerate(links.relations):
            for some in (asked[first : first + step] for first in range(0, len(asked), step)):
                best = _top(scores, some + kind * links.num_nodes[0], known, wide, top)
                yield BestLinks((relation.source, relation.name, relation.target), some, *best)
                guard.check()


@torch.no_grad()
def _top(scores: Score, queries: Tensor, known: _Known, wide: int, top: int) -> tuple[Tensor, Tensor]:
    """Returns the best candidates of each query that are not known, of `wide`, and their scores."""
    block = scores(queries, torch.arange(wide)).to("cpu", torch.float32, copy=True)
    block[known.among(queries.numpy())] = float("-inf")
    found, places = block.topk(top, dim=1)
    return places.masked_fill(found == float("-inf"), -1), found


class _Known(NamedTuple):
    """The known candidates of each query: indptr int64, shape (num_queries + 1,), and candidates int64."""

    indptr: NDArray[np.int64]
    candidates: NDArray[np.int64]

    @classmethod
    def of(cls, links: Links) -> Self:
        """Returns all candidates of `links`."""
        queries, candidates = links.queries(np.arange(links.pairs.shape[1]), True)
        order = np.argsort(queries, kind="stable")
        return cls(np.searchsorted(queries[order], np.arange(links.num_queries(True) + 1)), candidates[order])

    def among(self, queries: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Returns the known pairs of `queries`: places there, and candidates."""
        own, slots = row_slots(self.indptr, queries.astype(np.int32))
        rows = np.repeat(np.arange(len(queries)), np.diff(own))
        return torch.from_numpy(rows), torch.from_numpy(self.candidates[slots])
