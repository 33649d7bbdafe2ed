"""`LinkNeighborLoader`: mini-batches of pairs of nodes, in the form of PyG's `LinkNeighborLoader`."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.sampler import NegativeSampling

from a3gnn.checks import flag, positive_number
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.edges import known_times
from a3gnn.graphs.schema import Schema
from a3gnn.loader.arguments import LoaderArguments, relation_of
from a3gnn.loader.loader import Loader, Supported, arguments_in, check_supported
from a3gnn.loader.pyg_attributes import fields_of, relation_keys
from a3gnn.loader.pyg_source import Source
from a3gnn.loader.seeds import InputNodes, array_of, checked_input_id
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.sampling.negatives import Candidates, Negatives
from a3gnn.sampling.relabeling import forget, relabel
from a3gnn.sampling.sampler import Fanout, PositionMaps
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


class LinkFields(NamedTuple):
    """What a mini-batch has of its pairs; a `SeedFields` for pairs.

    Attributes:
        key: PyG's key of their store.
        types: Types of the sources and the targets.
        input_id: The `input_id` of each given pair, int64.
        written: Attributes of the stores of the pairs, the sources and the targets; None removes one.
        pairs: The place of the pair that each seed belongs to, int64; None if all seeds share one tree.
    """

    key: Any
    types: tuple[str, str]
    input_id: Tensor
    written: tuple[dict[str, Tensor | None], ...]
    pairs: Tensor | None

    def put(self, data: Any, num_seeds: int) -> None:
        """Writes the fields into the mini-batch `data`."""
        fields_of(data, self.key)["input_id"] = self.input_id
        for key, written in zip((self.key, *self.types), self.written, strict=True):
            fields = fields_of(data, key)
            for name, value in written.items():
                if value is None:
                    fields.pop(name, None)
                else:
                    fields[name] = value
        if self.pairs is not None:
            for store in data.node_stores:
                store.batch = self.pairs[store.batch]


@dataclass(frozen=True, eq=False, kw_only=True)
class InputPairs(InputNodes):
    """A loader's pairs in the caller's order: `nodes` are their sources, and have `input_ids`, times and `until`."""

    argument = "edge_label_index"
    are_distinct = by_place = True  # ends are made distinct for each mini-batch
    targets: NDArray[np.int32]  # ids through all types, int32, shape (num_pairs,)
    key: Any  # PyG's key of the store of the pairs
    types: tuple[str, str]  # types of the sources and the targets
    first: tuple[int, int]  # the first id of each of these types
    labels: Tensor | None  # a label for each pair, shape (num_pairs, ...); None if there are none
    negatives: Negatives | None  # draws negatives by ids within the types; None draws none
    sampling: NegativeSampling | None  # amount and mode of negatives; None draws none
    disjoint: bool  # whether each end of a pair has a tree of its own
    positions: PositionMaps  # maps for relabeling

    def planned(self, places: NDArray[np.int64], epoch: int, index: int) -> tuple[PlannedBatch, LinkFields]:  # type: ignore[override]
        """Returns mini-batch `index` of `epoch`, from the pairs at `places` and their negatives, and its fields.

        Raises:
            UsageError: A negative has no free pair.
        """
        (ends, sources), count, of_pair, until = self._ends(places, epoch, index), len(places), None, None
        if self.disjoint:  # as with times
            of_pair = np.concatenate([np.arange(size) % count for size in (sources, len(ends) - sources)])
            until = None if self.until is None else self.until[places][of_pair]
            seeds, at = ends, np.arange(len(ends))
        else:
            position, nodes, local = self.positions.take(), np.empty(len(ends) + 1, dtype=np.int32), ends.copy()
            seeds = nodes[: relabel(local, position, nodes, 0)]
            forget(seeds, position)
            self.positions.give_back(position)
            at = local.astype(np.int64)
        if self.types[0] != self.types[1]:  # places count within each type, and sources come first
            at[sources:] -= at[:sources].max() + 1
        batch = PlannedBatch(index=index, part=0, seeds=seeds, until=until)
        written, ids = self._written(places, torch.from_numpy(at)), torch.from_numpy(self.input_ids[places])
        pairs = None if of_pair is None else torch.from_numpy(of_pair)
        return batch, LinkFields(self.key, self.types, ids, written, pairs)

    def _ends(self, places: NDArray[np.int64], epoch: int, index: int) -> tuple[NDArray[np.int32], int]:
        """Returns sources, then targets, and how many sources: of the pairs at `places`, then of their negatives."""
        heads, tails, count = self.nodes[places], self.targets[places], len(places)
        if self.negatives is None or self.sampling is None:
            return np.concatenate([heads, tails]), count
        triplet, more = self.sampling.is_triplet(), math.ceil(count * self.sampling.amount)
        of_pair = np.arange(more) // (more // count) if triplet else np.arange(more) % count
        times = None if self.times is None else self.times.numpy()[places[of_pair]]
        if triplet:
            drawn = self.negatives.targets(heads[of_pair] - np.int32(self.first[0]), times, epoch, index)
        else:
            drawn = self.negatives.pairs(more, times, epoch, index)
        if drawn.min() < 0:
            self._refuse(int(places[of_pair[(drawn < 0).reshape(-1, more).any(axis=0).argmax()]]))
        if triplet:  # draw by draw, so that places modulo the pairs are the pairs
            drawn = drawn.reshape(count, -1).T.ravel() + np.int32(self.first[1])
            return np.concatenate([heads, tails, drawn]), count
        sources, targets = drawn + np.array(self.first, dtype=np.int32)[:, None]
        return np.concatenate([heads, sources, tails, targets]), count + more

    def _refuse(self, place: int) -> NoReturn:
        source, target = int(self.nodes[place]) - self.first[0], int(self.targets[place]) - self.first[1]
        triplet = self.sampling is not None and self.sampling.is_triplet()
        what = f"all targets of node {source}" if triplet else "all pairs"
        avoids = self.negatives is not None and len(self.negatives.known) > 0
        raise UsageError(
            f"a negative must be a free pair at its time, got {what} {'known, ' if avoids else ''}later or of weight "
            f"0, for pair {place} of edge_label_index, ({source}, {target}); leave such pairs out"
            + (", or give avoid_known=False" if avoids else "")
        )

    def _written(self, places: NDArray[np.int64], ends: Tensor) -> tuple[dict[str, Tensor | None], ...]:
        """Returns PyG's attributes of the pairs at `places`, whose sources and targets are at `ends`."""
        count, at = len(places), torch.from_numpy(places)
        labels, times = (None if one is None else one[at] for one in (self.labels, self.times))
        if self.sampling is not None and self.sampling.is_triplet():
            heads, tails = ends[:count], ends[count:]
            negatives = tails[count:].view(-1, count).t().squeeze(-1)
            return (
                {"edge_label_index": None, "edge_label_time": None},
                {"src_index": heads, "seed_time": times},
                {"dst_pos_index": tails[:count], "dst_neg_index": negatives, "seed_time": times},
            )
        pairs = ends.view(2, -1)
        if self.sampling is not None:
            more = pairs.shape[1] - count
            if labels is None:
                labels = torch.from_numpy(np.repeat(np.array([1, 0], dtype=np.float32), [count, more]))
            else:
                labels = torch.cat([labels, labels.new_zeros((more, *labels.shape[1:]))])
            times = None if times is None else times[torch.arange(count + more) % count]
        return {"edge_label_index": pairs, "edge_label": labels, "edge_label_time": times}, {}, {}


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
        edge_label_index: The pairs, sources and targets, integers, shape (2, num_pairs); None takes all edges. Where
            there are types, a type of edges or (type, pairs).
        edge_label: A label for each pair, shape (num_pairs, ...). With binary negatives, negatives have the label 0,
            and those of pairs grow by 1 if their smallest is 0. Without it, binary negatives give float labels.
        edge_label_time: The time of each pair, with `time_attr`: both ends see edges up to it, and negatives exist then
            if nodes have times.
        neg_sampling: binary draws both ends of negative pairs; triplet draws targets for each source. A dict, or PyG's
            `NegativeSampling`, has `mode`, `amount` (per pair), `src_weight` and `dst_weight` (per node).
        neg_sampling_ratio: PyG's older option, the amount of binary negatives.
        time_attr: As in `Loader`; needs `edge_label_time`.
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

    def _checked_fanouts(self, num_neighbors: Any, source: Source, config: TrainConfig) -> tuple[Fanout, ...]:
        for knob, only in (("num_partitions", 1), ("seed_order", "random")):
            if getattr(config, knob) != only:
                raise UsageError(f"{knob} must be {only} for pairs of nodes, got {getattr(config, knob)}")
        if not isinstance(num_neighbors, Sequence) or len(num_neighbors):
            return super()._checked_fanouts(num_neighbors, source, config)
        if config.input_aggregation == "full":
            raise UsageError("num_neighbors must have a hop with input_aggregation full, got []; use sampled")
        return ()

    def _checked_inputs(
        self, source: Source, inputs: Any, input_id: Any, times: Any, asked: LoaderArguments, seed: int
    ) -> InputPairs:
        links, sampling, schema = self._links, _sampling(self._links), source.schema
        key, types, pairs = _pairs(links["edge_label_index"], source)
        count, first, times = pairs.shape[1], [schema.first_node(kind) for kind in types], links["edge_label_time"]
        avoid, until = flag("avoid_known", links["avoid_known"]), None
        if source.edges.times is not None:
            times = array_of("edge_label_time", times, "must be numbers")
            until = source.edges.times.rank_at(known_times("edge_label_time", times, count, "pair"))
        return InputPairs(
            nodes=pairs[0] + np.int32(first[0]),
            targets=pairs[1] + np.int32(first[1]),
            input_ids=np.arange(count) if input_id is None else checked_input_id(input_id, count, InputPairs.argument),
            times=None if times is None else torch.as_tensor(times),
            until=until,
            key=key,
            types=types,
            first=(first[0], first[1]),
            labels=_labels(links["edge_label"], count, sampling),
            negatives=None if sampling is None else _negatives(sampling, key, types, pairs, source, seed, avoid=avoid),
            sampling=sampling,
            disjoint=asked.disjoint,
            positions=PositionMaps(source.graph.num_nodes),
        )


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


def _pairs(given: Any, source: Source) -> tuple[Any, tuple[str, str], NDArray[np.int32]]:
    """Returns PyG's key of the pairs `given`, the types of their ends, and the pairs as ids within these types."""
    schema, types = source.schema, ("", "")
    key: Any = ""
    if not schema.is_untyped:
        is_pair = isinstance(given, tuple | list) and len(given) == 2 and not _is_name(given)
        name, given = given if is_pair else (given, None)
        key = _key(name, schema, alone=given is None)
        types = key[0], key[2]
    if given is None:
        edges = _all_edges(source, relation_keys(schema).index(key))
        if not edges.size:
            raise UsageError("edge_label_index must be given, because data has no edges here")
        return key, types, edges
    rule = "must be sources and targets of at least one pair, integers of shape (2, num_pairs)"
    pairs = array_of("edge_label_index", given, rule)
    if pairs.ndim != 2 or len(pairs) != 2 or not pairs.size or not np.issubdtype(pairs.dtype, np.integer):
        raise UsageError(f"edge_label_index {rule}, got {pairs.dtype} of shape {pairs.shape}")
    for kind, ids in zip(types, pairs, strict=True):
        count = schema.counts[kind]
        if ids.min() < 0 or ids.max() >= count:
            raise UsageError(f"edge_label_index must be ids in [0, {count}), got ids from {ids.min()} to {ids.max()}")
    return key, types, np.ascontiguousarray(pairs, dtype=np.int32)


def _is_name(given: Any) -> bool:
    return isinstance(given, str) or (isinstance(given, tuple | list) and all(isinstance(one, str) for one in given))


def _key(name: Any, schema: Schema, *, alone: bool) -> tuple[str, str, str]:
    """Returns PyG's key of the relation `name`, which may have no edges unless it is given `alone`, without pairs."""
    if not _is_name(name):
        raise UsageError("edge_label_index must be a type of edges or (type, pairs) here, such as ('a', 'to', 'b')")
    try:
        return tuple(relation_of(name, schema))  # type: ignore[return-value]
    except UsageError as error:
        parts = tuple(name.split("__")) if isinstance(name, str) else tuple(name)
        beside = any((one.source, one.target) == parts for one in schema.relations)
        if alone or beside or len(parts) not in (2, 3) or not {parts[0], parts[-1]} <= {*schema.types}:
            known = ", ".join(schema.types)
            raise UsageError(f"edge_label_index must have ends of the types {known}: {error}") from None
        return parts[0], parts[1] if len(parts) == 3 else "to", parts[-1]


def _all_edges(source: Source, relation: int) -> NDArray[np.int32]:
    """Returns the edges of a relation in the order of the data, ids within the types, int32, shape (2, num_edges)."""
    schema, edges, one = source.schema, source.edges, source.schema.relations[relation]
    count = schema.counts[one.target] if len(edges.indptr) > 1 else 0  # edges of a graph by parts are remote
    targets = np.arange(count, dtype=np.int32)
    rows = schema.rows(relation, targets)
    begins, sizes = edges.indptr[rows], edges.indptr[rows + 1] - edges.indptr[rows]
    places = np.repeat(begins - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
    first = np.int32(schema.first_node(one.source))
    pairs = np.stack([edges.indices[places] - first, np.repeat(targets, sizes)])
    if edges.ids is None or not len(edges.ids):
        return pairs
    ordered = np.empty_like(pairs)
    ordered[:, edges.ids[places]] = pairs
    return ordered


def _labels(given: Any, count: int, sampling: NegativeSampling | None) -> Tensor | None:
    """Returns the labels of the pairs on the host, so that 0 can label binary negatives."""
    if given is None:
        return None
    labels = torch.as_tensor(given).detach().cpu()
    if labels.ndim < 1 or len(labels) != count:
        raise UsageError(f"edge_label must have one entry per pair, {count}, got shape {tuple(labels.shape)}")
    return labels + 1 if sampling is not None and labels.numel() and labels.min() == 0 else labels


def _negatives(
    sampling: NegativeSampling,
    key: Any,
    types: tuple[str, str],
    pairs: NDArray[np.int32],
    source: Source,
    seed: int,
    *,
    avoid: bool,
) -> Negatives:
    """Returns the draw of negatives; with `avoid`, of none that is one of `pairs` or an edge of their relation."""
    schema, known, ends = source.schema, np.empty(0, dtype=np.int64), []
    for kind, name in zip(types, ("src_weight", "dst_weight"), strict=True):
        count, times = schema.counts[kind], source.node_times.get(kind)
        order = np.empty(0, dtype=np.int64) if times is None else np.argsort(times, kind="stable")
        at = np.empty(0) if times is None else times[order]
        totals = _totals(name, getattr(sampling, name), count, order)
        ends.append(Candidates(count, totals, readonly(order.astype(np.int32)), at))
    if avoid and source.graph.is_parted:
        raise UsageError("avoid_known needs the edges on this machine, got a graph by parts; give avoid_known=False")
    if avoid:
        numbers = [i for i, one in enumerate(schema.relations) if relation_keys(schema)[i] == key]
        lists = [pairs, *(_all_edges(source, one) for one in numbers)]
        known = np.unique(np.concatenate([one[0] + one[1].astype(np.int64) * ends[0].size for one in lists]))
    return Negatives(seed, (ends[0], ends[1]), readonly(known))


def _totals(name: str, weight: Any, count: int, order: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the cumulative weights of `count` nodes in `order`, or by id; empty if all weigh the same."""
    if weight is None:
        return readonly(np.empty(0))
    rule = f"must be {count} numbers >= 0, one per node, not all 0"
    weights = array_of(name, weight, rule)
    if weights.shape != (count,) or weights.dtype.kind not in "fiub":
        raise UsageError(f"{name} {rule}, got {weights.dtype} of shape {weights.shape}")
    totals = np.cumsum(weights[order] if len(order) else weights, dtype=np.float64)
    if not (weights >= 0).all() or not 0 < totals[-1] < np.inf:
        raise UsageError(f"{name} {rule}, got a sum of {totals[-1]} and a least one of {weights.min()}")
    return readonly(totals)
