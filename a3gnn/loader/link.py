"""`LinkNeighborLoader`: mini-batches of pairs of nodes, in the form of PyG's `LinkNeighborLoader`."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.sampler import NegativeSampling

from a3gnn.checks import flag, positive_number
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.edges import Edges
from a3gnn.loader.arguments import LoaderArguments
from a3gnn.loader.loader import Loader, Supported, arguments_in, check_supported
from a3gnn.loader.pyg_source import Source
from a3gnn.loader.seeds import InputNodes, array_of, checked_input_id
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.sampling.negatives import Negatives
from a3gnn.sampling.relabeling import forget, relabel
from a3gnn.sampling.sampler import PositionMaps
from a3gnn.storage.compiled import readonly

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike

#: Arguments of `Loader` that pairs don't take.
_OF_NODES = {
    "input_nodes": Supported(None, "give edge_label_index"),
    "input_time": Supported(None, "give edge_label_time"),
    "memory_limit": Supported(None, "mini-batches of pairs can't be cut; lower batch_size or num_neighbors"),
    "share": Supported(None, "shares divide seeds, not pairs; give each process its part of edge_label_index"),
}


#: `LinkNeighborLoader`'s own arguments.
_OWN = ("edge_label_index", "edge_label", "edge_label_time", "neg_sampling", "neg_sampling_ratio", "avoid_known")


class LinkReport(NamedTuple):
    """What a mini-batch reports of its pairs.

    Attributes:
        input_id: The `input_id` of each given pair, int64.
        written: Attributes of the mini-batch; None removes one.
        pairs: The place of the pair that each seed belongs to, int64; None if all seeds share one tree.
    """

    input_id: Tensor
    written: dict[str, Tensor | None]
    pairs: Tensor | None


@dataclass(frozen=True, eq=False)
class InputPairs(InputNodes):
    """The pairs of a loader in the caller's order: `nodes` are their sources, and have the `input_ids`.

    Attributes:
        targets: Node ids, int32, shape (num_pairs,).
        labels: A label for each pair, shape (num_pairs, ...); None if there are none.
        negatives: Draws negatives; None draws none.
        sampling: Amount and mode of negatives; None draws none.
        disjoint: Whether each end of a pair has a tree of its own.
        positions: Maps for relabeling.
    """

    argument = "edge_label_index"
    are_distinct = by_place = True  # ends are made distinct for each mini-batch
    targets: NDArray[np.int32]
    labels: Tensor | None
    negatives: Negatives | None
    sampling: NegativeSampling | None
    disjoint: bool
    positions: PositionMaps

    def planned(self, places: NDArray[np.int64], epoch: int, index: int) -> tuple[PlannedBatch, LinkReport]:
        """Returns mini-batch `index` of `epoch`, from the pairs at `places` and their negatives, and its report.

        Raises:
            UsageError: A negative has no free pair.
        """
        sides = self._ends(places, epoch, index)
        sizes, ends = [len(side) for side in sides], np.concatenate(sides)
        if self.disjoint:
            seeds, at = ends, np.arange(len(ends), dtype=np.int32)
        else:
            position, nodes, at = self.positions.take(), np.empty(len(ends) + 1, dtype=np.int32), ends.copy()
            seeds = nodes[: relabel(at, position, nodes, 0)]
            forget(seeds, position)
            self.positions.give_back(position)
        heads, tails = torch.from_numpy(at.astype(np.int64)).split(sizes)  # type: ignore[no-untyped-call]
        pairs = torch.cat([torch.arange(size) % len(places) for size in sizes]) if self.disjoint else None
        report = LinkReport(torch.from_numpy(self.input_ids[places]), self._written(places, heads, tails), pairs)
        return PlannedBatch(index=index, part=0, seeds=seeds), report

    def _ends(self, places: NDArray[np.int64], epoch: int, index: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns sources and targets: of the pairs at `places`, then of their negatives."""
        heads, tails = self.nodes[places], self.targets[places]
        if self.negatives is None or self.sampling is None:
            return heads, tails
        if self.sampling.is_triplet():  # draw by draw, so that places modulo the pairs are the pairs
            sources = heads[:0]
            targets = self.negatives.targets(heads, self.sampling.amount, epoch, index).T.ravel()
        else:
            sources, targets = self.negatives.pairs(math.ceil(len(places) * self.sampling.amount), epoch, index)
        if targets.min() < 0:
            place = places[np.argmin(targets) % len(places)]
            pair = int(self.nodes[place]), int(self.targets[place])
            known = f"all targets of node {pair[0]}" if self.sampling.is_triplet() else "all pairs"
            raise UsageError(
                f"avoid_known needs a free negative for each pair, got {known} known or of weight 0, for pair {place} "
                f"of edge_label_index, {pair}; leave such pairs out, or give avoid_known=False"
            )
        return np.concatenate([heads, sources]), np.concatenate([tails, targets])

    def _written(self, places: NDArray[np.int64], heads: Tensor, tails: Tensor) -> dict[str, Tensor | None]:
        """Returns PyG's attributes of the pairs at `places`, whose ends have these places in the mini-batch."""
        count, labels = len(places), None if self.labels is None else self.labels[torch.from_numpy(places)]
        if self.sampling is not None and self.sampling.is_triplet():
            negatives = tails[count:].view(-1, count).t().squeeze(-1)
            written = {"src_index": heads, "dst_pos_index": tails[:count], "dst_neg_index": negatives}
            return {**written, "edge_label_index": None, "edge_label_time": None}
        if self.sampling is not None:
            labels = torch.ones(count) if labels is None else labels
            labels = torch.cat([labels, labels.new_zeros((len(heads) - count, *labels.shape[1:]))])
        return {"edge_label_index": torch.stack([heads, tails]), "edge_label": labels, "edge_label_time": None}


class LinkNeighborLoader(Loader):
    """Iterates over mini-batches of pairs of nodes, with the arguments of PyG's `LinkNeighborLoader`.

    The nodes of a mini-batch are the distinct ends of its pairs, then their sampled in-neighbors. It has the attributes
    of a mini-batch of `Loader`, except `batch_size`, and `edge_label_index`, int64, shape (2, num_pairs): the pairs as
    places among its nodes. `edge_label` has a label for each of them. With triplets it has `src_index`,
    `dst_pos_index` and `dst_neg_index` instead, shapes (num_pairs,), (num_pairs,) and (num_pairs, amount), or
    (num_pairs,) for an amount of 1.

    Negatives are random, with repetition. They depend only on `seed`, epoch, mini-batch and pair, so they are
    bit-identical with any number of workers.

    Examples:
        >>> loader = LinkNeighborLoader(data, [20, 10], neg_sampling="binary", batch_size=512, shuffle=True)
        >>> for batch in loader:
        ...     h = model(batch.x, batch.edge_index)
        ...     source, target = batch.edge_label_index
        ...     loss = binary_cross_entropy_with_logits((h[source] * h[target]).sum(-1), batch.edge_label)

    Args:
        data: As in `Loader`.
        num_neighbors: As in `Loader`; an empty list loads only the ends of the pairs.
        edge_label_index: The pairs, sources and targets, integers, shape (2, num_pairs); None takes all edges.
        edge_label: A label for each pair, shape (num_pairs, ...). With binary negatives, negatives have the label 0,
            and those of pairs grow by 1 if their smallest is 0. Without it, binary negatives give float labels.
        edge_label_time: Refused, as `time_attr` is.
        neg_sampling: binary draws both ends of negative pairs; triplet draws targets for each source. A dict, or PyG's
            `NegativeSampling`, has `mode`, `amount` (per pair), `src_weight` and `dst_weight` (per node).
        neg_sampling_ratio: PyG's older option, the amount of binary negatives.
        time_attr: Refused: temporal sampling isn't supported.
        avoid_known: Whether a negative is never a known pair: an edge of `data`, or a pair of `edge_label_index`, in
            the same direction. PyG's loader may draw them, which is the default.
        others: Other arguments of `Loader`, except `input_nodes`, `input_time`, `memory_limit` and `share`; `input_id`
            has one entry per pair.

    Raises:
        UsageError: An argument is out of range or is not supported. While iterating: a negative has no free pair.
        GraphError: `data` is not valid.
        DeviceError: The device is not available.
        ConfigError: The tuned.json is missing, broken or foreign, or a knob has an invalid value.
    """

    def __init__(
        self,
        data: GraphLike,
        num_neighbors: Sequence[int],
        edge_label_index: Any = None,
        edge_label: Any = None,
        edge_label_time: Any = None,
        *,
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        avoid_known: bool = False,
        **others: Any,
    ) -> None:
        given = arguments_in(locals())
        for name in _OF_NODES.keys() & others.keys():
            check_supported(name, others[name], _OF_NODES[name])
        if (edge_label_time is None) != (time_attr is None):
            missing = "edge_label_time" if edge_label_time is None else "time_attr"
            raise UsageError(f"'{missing}' is not set; give edge_label_time and time_attr together, or neither")
        self._links = {name: given.pop(name) for name in _OWN}
        self.edge_label_index = edge_label_index
        super().__init__(**given)
        self._given |= self._links

    def minibatches(self) -> Generator[MiniBatch, None, None]:
        """Refused, because a3gnn's own mini-batches have no pairs.

        Raises:
            UsageError: Always.
        """
        raise UsageError("minibatches() needs a Loader, because a3gnn's own mini-batches have no pairs; iterate")

    def _inference_fault(self) -> str:
        return "pairs of nodes as seeds"

    def _checked_fanouts(self, num_neighbors: Any, config: TrainConfig) -> tuple[int, ...]:
        for knob, only in (("num_partitions", 1), ("seed_order", "random")):
            if getattr(config, knob) != only:
                raise UsageError(f"{knob} must be {only} for pairs of nodes, got {getattr(config, knob)}")
        if not isinstance(num_neighbors, Sequence) or len(num_neighbors):
            return super()._checked_fanouts(num_neighbors, config)
        if config.input_aggregation == "full":
            raise UsageError("num_neighbors must have a hop with input_aggregation full, got []; use sampled")
        return ()

    def _checked_inputs(
        self, input_nodes: Any, input_id: Any, source: Source, asked: LoaderArguments, seed: int
    ) -> InputPairs:
        links, sampling = self._links, _sampling(self._links)
        pairs, nodes = _pairs(links["edge_label_index"], source), source.graph.num_nodes
        count, avoid = pairs.shape[1], flag("avoid_known", links["avoid_known"])
        return InputPairs(
            nodes=pairs[0],
            targets=pairs[1],
            input_ids=np.arange(count) if input_id is None else checked_input_id(input_id, count, InputPairs.argument),
            labels=_labels(links["edge_label"], count, sampling),
            negatives=None if sampling is None else _negatives(sampling, pairs, source, seed, avoid=avoid),
            sampling=sampling,
            disjoint=asked.disjoint,
            positions=PositionMaps(nodes),
        )

    def _reported(self, batch: MiniBatch, report: LinkReport) -> Any:
        data = super()._reported(batch, report.input_id)
        del data.batch_size
        if report.pairs is not None:
            data.batch = report.pairs.to(data.batch.device)[data.batch]
        for name, value in report.written.items():
            data[name] = value if value is None else value.to(data.input_id.device)
        return data


def _sampling(links: Mapping[str, Any]) -> NegativeSampling | None:
    """Returns how to draw negatives; None draws none.

    Raises:
        UsageError: The arguments are not valid, or conflict.
    """
    given, ratio = links["neg_sampling"], links["neg_sampling_ratio"]
    if ratio is not None and ratio != 0:
        if given is not None:
            raise UsageError("neg_sampling_ratio must be left out with neg_sampling, whose amount has the same meaning")
        given = {"mode": "binary", "amount": ratio}
    try:
        sampling = NegativeSampling.cast(given)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"neg_sampling must be binary, triplet, or a dict with mode, amount, src_weight and dst_weight, got "
            f"{given!r}: {error}"
        ) from error
    if sampling is None:
        return None
    positive_number("the amount of neg_sampling", sampling.amount, "negatives per pair")
    if sampling.is_triplet() and links["edge_label"] is not None:
        raise UsageError("edge_label must be left out with triplet negatives, which have no labels; use binary ones")
    return sampling


def _pairs(given: Any, source: Source) -> NDArray[np.int32]:
    """Returns the pairs `given`, or all edges in their order in the data, int32, shape (2, num_pairs)."""
    if given is None:
        return _all_edges(source.edges)
    rule = "must be sources and targets of at least one pair, integers of shape (2, num_pairs)"
    given = given.as_subclass(Tensor) if isinstance(given, Tensor) else given  # an EdgeIndex has no numpy()
    pairs = array_of("edge_label_index", given, rule)
    if pairs.ndim != 2 or len(pairs) != 2 or not pairs.size or not np.issubdtype(pairs.dtype, np.integer):
        raise UsageError(f"edge_label_index {rule}, got {pairs.dtype} of shape {pairs.shape}")
    count, low, high = source.graph.num_nodes, int(pairs.min()), int(pairs.max())
    if low < 0 or high >= count:
        raise UsageError(f"edge_label_index must be ids in [0, {count}), got ids from {low} to {high}")
    return np.ascontiguousarray(pairs, dtype=np.int32)


def _all_edges(edges: Edges) -> NDArray[np.int32]:
    if not len(edges.indices):
        raise UsageError("edge_label_index must be given, because data has no edges here")
    targets = np.repeat(np.arange(edges.num_nodes, dtype=np.int32), np.diff(edges.indptr))
    pairs = np.stack([edges.indices, targets])
    if edges.ids is None or not len(edges.ids):
        return pairs
    ordered = np.empty_like(pairs)
    ordered[:, edges.ids] = pairs
    return ordered


def _labels(given: Any, count: int, sampling: NegativeSampling | None) -> Tensor | None:
    """Returns the labels of the pairs on the host, so that 0 can label binary negatives."""
    if given is None:
        return None
    labels = torch.as_tensor(given).detach().cpu()
    if labels.ndim < 1 or len(labels) != count:
        raise UsageError(f"edge_label must have one entry per pair, {count}, got shape {tuple(labels.shape)}")
    return labels + 1 if sampling is not None and labels.min() == 0 else labels


def _negatives(
    sampling: NegativeSampling, pairs: NDArray[np.int32], source: Source, seed: int, *, avoid: bool
) -> Negatives:
    """Returns the draw of negatives; with `avoid`, of none that is an edge of `source` or one of `pairs`."""
    nodes, known = source.graph.num_nodes, np.empty(0, dtype=np.int64)
    if avoid and source.graph.is_parted:
        raise UsageError("avoid_known needs the edges on this machine, got a graph by parts; give avoid_known=False")
    if avoid:
        ends = [pairs] if not len(source.edges.indices) else [pairs, _all_edges(source.edges)]
        known = np.unique(np.concatenate([sources + targets.astype(np.int64) * nodes for sources, targets in ends]))
    source_totals, target_totals = (
        _totals(name, getattr(sampling, name), nodes) for name in ("src_weight", "dst_weight")
    )
    return Negatives(seed, (nodes, nodes), (source_totals, target_totals), known)


def _totals(name: str, weight: Any, count: int) -> NDArray[np.float64]:
    """Returns the cumulative weights of `count` nodes; empty if all weigh the same."""
    if weight is None:
        return readonly(np.empty(0))
    rule = f"must be {count} numbers >= 0, one per node, not all 0"
    weights = array_of(name, weight, rule)
    if weights.shape != (count,) or weights.dtype.kind not in "fiub":
        raise UsageError(f"{name} {rule}, got {weights.dtype} of shape {weights.shape}")
    totals = np.cumsum(weights, dtype=np.float64)
    if not (weights >= 0).all() or not 0 < totals[-1] < np.inf:
        raise UsageError(f"{name} {rule}, got a sum of {totals[-1]} and a least one of {weights.min()}")
    return readonly(totals)
