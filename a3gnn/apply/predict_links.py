"""`predict_links` and `predict_edges`: the best links, or values of edges, by a trained model, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.apply.predict import check_one, check_types, own_model, probabilities
from a3gnn.checks import checked_limit, whole_number
from a3gnn.errors import UsageError, unknown_name
from a3gnn.evaluation.event_evaluator import EventEvaluator
from a3gnn.evaluation.link_evaluator import EdgeEvaluator, LinkEvaluator, block_bytes
from a3gnn.evaluation.link_quality import heuristic_scores
from a3gnn.evaluation.ranking import Score
from a3gnn.graphs.arrays import row_slots
from a3gnn.graphs.as_graph import as_graph
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import is_labeled
from a3gnn.graphs.links import Links
from a3gnn.graphs.split import Split
from a3gnn.graphs.target import Target
from a3gnn.loader.seeds import InputNodes
from a3gnn.metric import HEURISTICS
from a3gnn.notify import listener
from a3gnn.option_names import option
from a3gnn.pipeline.pipeline import checked_device
from a3gnn.process.memory_guard import MemoryGuard
from a3gnn.storage.host_limits import evaluation_bytes
from a3gnn.training.compile_ahead import KernelSet, compile_ahead
from a3gnn.training.saved_model import SavedModel

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike

E = TypeVar("E", bound=LinkEvaluator)
#: A score of links, and what checks the memory limit.
_Scoring = tuple[Score, Callable[[], None]]


class EdgeValues(NamedTuple):
    """Predicted values of some edges.

    Attributes:
        sources: Ids within their type, int64, shape (n,).
        targets: Ids within their type, int64, shape (n,).
        values: float32, shape (n,), or probabilities of the classes or labels, shape (n, num_outputs).
    """

    sources: Tensor
    targets: Tensor
    values: Tensor


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
    at: float | None = None,
    host_memory_limit: str | int | None = None,
    device: str | None = None,
    notify: Callable[[str], None] | None = None,
) -> Iterator[BestLinks]:
    """Returns the best new links of each source, some sources at a time, in order.

    All links of the graph are left out, validation and test links included. If they have times, they may repeat, so
    none is left out. Then predictions are for one time, and see only earlier edges.

    Args:
        model: A model.pt from `train`, or its folder; or the result of `SavedModel.read`; or None with a heuristic.
        dataset: As in `train`, with the nodes of the model's training.
        heuristic: A score without a model, by all links of the graph: popularity or item-neighbors. The dataset names
            the links then, such as "target:user,rates,movie:movies.npz".
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
    notify, top = listener(notify), whole_number("top", top, 1, "links of each source")
    name = heuristic_of(model, heuristic)
    limit = checked_limit(option("host_memory_limit"), host_memory_limit)
    if model is not None:
        opened = _Opened.of(model, dataset, limit, device, notify, valued=False)
        graph, scores = opened.graph, opened.scores(at)
    else:
        compile_ahead(KernelSet(), notify)
        graph = _with_links(dataset)
        scores = _without_model(name, graph, at, limit)
    links = graph.links
    assert links is not None, "checked"
    if at is not None and (links.ranks is None or not isinstance(at, int | float) or not abs(at) < 2.0**63):
        raise UsageError(f"{option('at')} must be a finite time, for a graph whose links have times, got {at}")
    asked = torch.from_numpy(InputNodes.of(sources, links.num_nodes[0], name="sources").nodes).long()
    return _best(scores, links, asked, min(top, links.num_nodes[1]), block_bytes(evaluation_bytes(limit)))


def predict_edges(
    model: str | Path | SavedModel,
    dataset: GraphLike,
    *,
    edges: Any = None,
    host_memory_limit: str | int | None = None,
    device: str | None = None,
    notify: Callable[[str], None] | None = None,
) -> Iterator[EdgeValues]:
    """Returns the predicted values of edges, some edges at a time, in order.

    Args:
        model: A model.pt from `train`, or its folder; or the result of `SavedModel.read`.
        dataset: As in `train`, with the nodes of the model's training.
        edges: Sources and targets as ids within their types, integers, shape (2, n); they need not be in the graph.
            None takes the relation's edges without a value: -1 or NaN.
        host_memory_limit: As in `predict`.
        device: cpu or cuda; by default cuda if it is available.
        notify: Called with messages; by default they are printed, in a script to stderr.

    Raises:
        UsageError: An argument is invalid, the model predicts something else, or all edges have a value.
        ConfigError: The model.pt is missing, broken, or does not name its model.
        GraphError: The graph can't be read, or has other types, relations or nodes than the model's training.
        ModelError: Your own model can't be imported or built, or the weights don't fit the model.
        MemoryLimitError: The memory limit was passed.
        A3GNNError: A row of a node is not finite.
    """
    limit = checked_limit(option("host_memory_limit"), host_memory_limit)
    opened = _Opened.of(model, dataset, limit, device, listener(notify), valued=True)
    if edges is None:
        pairs: NDArray[np.integer] = opened.links.pairs[:, ~is_labeled(opened.graph.labels)]
        if not pairs.shape[1]:
            raise UsageError(
                f"each edge of {opened.graph.name} has a value, so there is nothing to predict; {option('edges')} "
                "names pairs"
            )
    else:
        pairs = _checked_edges(edges, opened.links)
    return _values(opened, pairs)


def save_edges(path: Path, model: SavedModel, dataset: GraphLike, edges: Any, **options: Any) -> tuple[int, ...]:
    """Writes the result of `predict_edges` to an .npy file, block by block, and returns its rows and columns.

    A row has the fields `source` and `target`, and `value`, or `probability` of shape (num_outputs,). Arguments are
    those of `predict_edges`.
    """

    def tables() -> Iterator[NDArray[Any]]:
        for some in predict_edges(model, dataset, edges=edges, **options):
            name = "value" if some.values.ndim == 1 else "probability"
            kind = [("source", "i8"), ("target", "i8"), (name, "f4", some.values.shape[1:])]
            table = np.empty(len(some.sources), dtype=kind)
            table["source"], table["target"], table[name] = some.sources, some.targets, some.values
            yield table

    rows, kind = _write(path, tables())
    return rows, *kind[2].shape


def heuristic_of(model: str | Path | SavedModel | None, heuristic: str | None) -> str:
    """Returns the name of the score in place of a model, or "" with a model.

    Raises:
        UsageError: Both or neither are given, or there is no such score.
    """
    check_one(model, heuristic)
    known = [name.replace(" ", "-") for name in HEURISTICS]
    if heuristic is not None and heuristic not in known:
        raise unknown_name(option("heuristic"), heuristic, known)
    return "" if heuristic is None else HEURISTICS[known.index(heuristic)]


def save_links(path: Path, model: SavedModel | None, dataset: GraphLike, top: int, **options: Any) -> tuple[int, int]:
    """Writes the result of `predict_links` to an .npy file, block by block, and returns its rows and links of a row.

    A row has the fields `relation` (a place among the predicted relations), `source`, and `target` and `score`, of
    shape (k,) each. Arguments are those of `predict_links`.
    """
    places: dict[tuple[str, str, str], int] = {}

    def tables() -> Iterator[NDArray[Any]]:
        for some in predict_links(model, dataset, top=top, **options):
            links = some.targets.shape[1]
            kind = [("relation", "i4"), ("source", "i8"), ("target", "i8", (links,)), ("score", "f4", (links,))]
            table = np.empty(len(some.sources), dtype=kind)
            table["relation"] = places.setdefault(some.relation, len(places))
            table["source"], table["target"], table["score"] = some.sources, some.targets, some.scores
            yield table

    rows, kind = _write(path, tables())
    return rows, kind["target"].shape[0]


def _write(path: Path, tables: Iterable[NDArray[Any]]) -> tuple[int, np.dtype[Any]]:
    """Writes `tables` of one dtype, at least one, below each other to an .npy file; returns its rows and the dtype."""
    rows, kind = 0, None
    with path.open("wb") as file:
        for table in tables:
            if kind is None:
                kind = table.dtype
                _write_header(file, kind, 0)
            file.write(table.tobytes())
            rows += len(table)
        assert kind is not None, "there is a table"
        file.seek(0)
        _write_header(file, kind, rows)
    return rows, kind


def _write_header(file: BinaryIO, kind: np.dtype[Any], rows: int) -> None:
    """Writes the header of an .npy file; its length is the same for any number of rows."""
    fields = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (rows,)}
    np.lib.format.write_array_header_1_0(file, fields)


@dataclass(frozen=True, slots=True, eq=False)
class _Opened:
    """A trained model of links or of values of edges, and a graph with its types."""

    saved: SavedModel
    graph: Graph
    device: torch.device  # where the model is computed
    limit: int | None  # memory limit in bytes; None for no limit
    notify: Callable[[str], None]  # called with messages

    @classmethod
    def of(
        cls,
        model: str | Path | SavedModel,
        dataset: GraphLike,
        limit: int | None,
        device: str | None,
        notify: Callable[[str], None],
        *,
        valued: bool,
    ) -> Self:
        """Returns both after checking that they fit; `valued` is whether values of edges are predicted."""
        saved = model if isinstance(model, SavedModel) else SavedModel.read(model)
        if saved.types is None or not saved.types.has_links or valued == (saved.target == "links"):
            called, what = ("predict_edges", "values of edges") if valued else ("predict_links", "links")
            raise UsageError(
                f"{called} needs a model of {what}, got one of {saved.predicts}; a3gnn.predict takes nodes"
            )
        place = torch.device(checked_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
        compile_ahead(KernelSet(), notify)
        graph = as_graph(dataset, target=saved.types.target)
        check_types(saved, graph)
        return cls(saved, graph, place, limit, notify)

    @property
    def links(self) -> Links:
        """The graph's links or edges."""
        assert self.graph.links is not None, "the target is a relation"
        return self.graph.links

    @contextmanager
    def evaluator(self, kind: type[E]) -> Iterator[E]:
        """Returns a `kind` of evaluator of the model; the memory limit holds within this context."""
        with MemoryGuard(self.limit) as guard:
            yield kind(
                self.graph,
                self.saved.task,
                own_model(self.saved, self.graph, self.device, self.notify),
                device=self.device,
                budget_bytes=evaluation_bytes(self.limit),
                on_chunk=guard.check,
            )
            guard.check()

    @contextmanager
    def scores(self, at: float | None) -> Iterator[_Scoring]:
        """Returns the model's scores of targets; with times at the time `at`, or after the last edge."""
        if self.links.ranks is None:
            with self.evaluator(LinkEvaluator) as evaluator:
                yield evaluator.scores()(True), evaluator.on_chunk
        else:
            with self.evaluator(EventEvaluator) as evaluator:
                yield evaluator.scores(at)(True), evaluator.on_chunk


def _with_links(dataset: GraphLike) -> Graph:
    """Returns the graph, whose links are predicted.

    Raises:
        UsageError: They are not.
    """
    named = not isinstance(dataset, str) or Target.in_spec(Split.in_spec(dataset)[1])[0].is_relation
    graph = as_graph(dataset) if named else None
    if graph is None or graph.links is None or graph.links.valued:
        raise UsageError(f"{option('heuristic')} needs links, so {option('target')} must be SOURCE,RELATION,TARGET")
    return graph


@contextmanager
def _without_model(name: str, graph: Graph, at: float | None, limit: int | None) -> Iterator[_Scoring]:
    """Returns the score `name` of targets by all links of `graph`; with times by those before the time `at`."""
    links, until = graph.links, None
    assert links is not None, "checked"
    if links.ranks is not None and at is not None:
        assert graph.types is not None
        assert graph.types.times is not None
        until = int(np.searchsorted(links.ranks, np.searchsorted(graph.types.times.distinct, at)))
    known = np.arange(links.pairs.shape[1], dtype=np.int32)[:until]
    with MemoryGuard(limit) as guard:
        yield heuristic_scores(name, links, known)(True), guard.check


def _best(
    made: AbstractContextManager[_Scoring], links: Links, asked: Tensor, top: int, block: int
) -> Iterator[BestLinks]:
    """Yields the best links of the sources `asked` by the scores that `made` makes, in blocks of `block` bytes."""
    with made as (scores, check):
        wide = links.num_candidates(True)
        known = _Known.of(links) if links.ranks is None else None  # links with times may repeat
        step = max(1, block // (4 * wide))
        for kind, relation in enumerate(links.relations):
            for some in (asked[first : first + step] for first in range(0, len(asked), step)):
                best = _top(scores, some + kind * links.num_nodes[0], known, wide, top)
                yield BestLinks((relation.source, relation.name, relation.target), some, *best)
                check()


def _values(opened: _Opened, pairs: NDArray[np.integer]) -> Iterator[EdgeValues]:
    with opened.evaluator(EdgeEvaluator) as evaluator:
        for some, outputs in evaluator.values(pairs):
            sources, targets = torch.from_numpy(pairs[:, some].astype(np.int64))
            found = probabilities(outputs.cpu(), opened.saved.target)
            yield EdgeValues(sources, targets, found[:, 0] if opened.saved.target == "values" else found)


def _checked_edges(edges: Any, links: Links) -> NDArray[np.integer]:
    """Returns `edges` as an array.

    Raises:
        UsageError: They are no pairs of nodes.
    """
    pairs = np.asarray(edges.detach().cpu() if isinstance(edges, Tensor) else edges)
    if pairs.ndim != 2 or len(pairs) != 2 or pairs.dtype.kind not in "iu" or not pairs.shape[1]:
        raise UsageError(
            f"{option('edges')} must be integers of shape (2, n), sources and targets, got {pairs.dtype} of shape "
            f"{pairs.shape}; edges.T turns rows of pairs into it"
        )
    for ids, size, kind in zip(pairs, links.num_nodes, links.ends, strict=True):
        if ids.min() < 0 or ids.max() >= size:
            raise UsageError(
                f"{option('edges')} must have ids of {kind} in [0, {size}), got {ids.min()} to {ids.max()}; ids count "
                "within the type"
            )
    return pairs


@torch.no_grad()
def _top(scores: Score, queries: Tensor, known: _Known | None, wide: int, top: int) -> tuple[Tensor, Tensor]:
    """Returns the best candidates of each query that are not known, of `wide`, and their scores."""
    block = scores(queries, torch.arange(wide)).to("cpu", torch.float32, copy=True)
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
