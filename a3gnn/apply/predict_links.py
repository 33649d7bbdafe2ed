"""`predict_links`: the best links of each source by a trained model, block by block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.apply.predict import check_types, own_model
from a3gnn.checks import checked_limit, whole_number
from a3gnn.errors import UsageError
from a3gnn.evaluation.event_evaluator import EventEvaluator
from a3gnn.evaluation.link_evaluator import LinkEvaluator
from a3gnn.evaluation.link_quality import LinkScores
from a3gnn.graphs.arrays import row_slots
from a3gnn.graphs.as_graph import as_graph
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.links import Links
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

#: Most memory of a block of scores. Guess.
_BLOCK_BYTES = 64 << 20


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
    model: str | Path | SavedModel,
    dataset: GraphLike,
    *,
    top: int = 10,
    sources: Any = None,
    at: float | None = None,
    host_memory_limit: str | int | None = None,
    device: str | None = None,
    notify: Callable[[str], None] | None = None,
) -> Iterator[BestLinks]:
    """Returns the best new links of each source, some sources at a time, in order.

    All links of the graph, those of validation and test included, are left out. If they have times, they may repeat, so
    none is left out. Then predictions are for one time, and see only earlier edges.

    Args:
        model: A model.pt from `train`, or its folder; or the result of `SavedModel.read`.
        dataset: As in `train`, with the nodes of the model's training.
        top: Links of each source and relation.
        sources: Ids of sources in any order, or a bool mask over them; None takes all.
        at: The time of the predicted links, if links have times; None is after the last edge.
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
    saved = model if isinstance(model, SavedModel) else SavedModel.read(model)
    if saved.target != "links" or saved.types is None:
        raise UsageError(f"predict_links needs a model of links, got one of {saved.target}; a3gnn.predict takes it")
    top = whole_number("top", top, 1, "links of each source")
    place = torch.device(checked_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
    compile_ahead(KernelSet(), notify)
    graph = as_graph(dataset, target=saved.types.target)
    check_types(saved, graph)
    assert graph.links is not None, "the target is a relation"
    if at is not None and (graph.types is None or graph.types.times is None or not math.isfinite(at)):
        raise UsageError(f"{option('at')} must be a finite time, for a graph whose links have times, got {at}")
    asked = torch.from_numpy(InputNodes.of(sources, graph.links.num_nodes[0], name="sources").nodes).long()
    return _best(saved, graph, asked, min(top, graph.links.num_nodes[1]), at, place, limit, notify)


def save_links(path: Path, model: SavedModel, dataset: GraphLike, top: int, **options: Any) -> tuple[int, int]:
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


def _best(
    saved: SavedModel,
    graph: Graph,
    asked: Tensor,
    top: int,
    at: float | None,
    device: torch.device,
    limit: int | None,
    notify: Callable[[str], None],
) -> Iterator[BestLinks]:
    links, budget = graph.links, evaluation_bytes(limit)
    assert links is not None
    assert graph.types is not None
    with MemoryGuard(limit) as guard:
        evaluator = (LinkEvaluator if graph.types.times is None else EventEvaluator)(
            graph,
            saved.task,
            own_model(saved, graph, device, notify),
            device=device,
            budget_bytes=budget,
            on_chunk=guard.check,
        )
        scores = evaluator.scores(at) if isinstance(evaluator, EventEvaluator) else evaluator.scores()
        known, wide = _Known.of(links) if graph.types.times is None else None, links.num_candidates(True)
        step = max(1, min(_BLOCK_BYTES, budget // 8) // (4 * wide))
        for kind, relation in enumerate(links.relations):
            for some in (asked[first : first + step] for first in range(0, len(asked), step)):
                best = _top(scores, some + kind * links.num_nodes[0], known, wide, top)
                yield BestLinks((relation.source, relation.name, relation.target), some, *best)
                guard.check()


@torch.no_grad()
def _top(scores: LinkScores, queries: Tensor, known: _Known | None, wide: int, top: int) -> tuple[Tensor, Tensor]:
    """Returns the best candidates of each query that are not known, of `wide`, and their scores."""
    block = scores(True)(queries, torch.arange(wide)).cpu().float()
    if known is not None:
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
