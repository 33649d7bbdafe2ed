"""DGL inside its worker: GraphBolt, over 32-bit ids, and the older sampler; whichever is faster counts."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from itertools import pairwise
from time import perf_counter
from typing import Any

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl  # type: ignore[import-not-found]
import dgl.graphbolt as gb  # type: ignore[import-not-found]
import torch
from dgl.nn import GATConv, GINConv, GraphConv, SAGEConv  # type: ignore[import-not-found]
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.engine.workers.folder import GraphFolder
from benchmarks.engine.workers.serve import serve
from benchmarks.engine.workers.work import DROPOUT, HEADS, LEARNING_RATE, Batch, Unavailable, Work

_SEED = 1
#: Ids of input nodes, blocks (input layer first) and milliseconds by stage.
_Sampled = tuple[Tensor, list[Any], dict[str, float]]


class BlockModel(nn.Module):
    """The benchmark's model as DGL's users write it: one layer a block, with ReLU and dropout between them."""

    def __init__(self, kind: str, widths: list[int]) -> None:
        super().__init__()
        pairs = list(pairwise(widths))
        self.layers = nn.ModuleList(_layer(kind, *pair, last=i == len(pairs) - 1) for i, pair in enumerate(pairs))
        self._kind = kind

    def forward(self, blocks: list[Any], x: Tensor) -> Tensor:
        """Returns the seeds' logits, shape (num_seeds, num_classes)."""
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            last = i == len(self.layers) - 1
            x = layer(block, x)
            if self._kind == "gat":
                x = x.mean(1) if last else x.flatten(1)
            if not last:
                x = functional.dropout(functional.relu(x), DROPOUT, self.training)
        return x


def _layer(kind: str, narrow: int, wide: int, *, last: bool) -> nn.Module:
    layer: nn.Module
    if kind == "sage":
        layer = SAGEConv(narrow, wide, "mean")
    elif kind == "gcn":
        # Adding self loops to every block would cost DGL more than the layer; it goes without.
        layer = GraphConv(narrow, wide, norm="both", allow_zero_in_degree=True)
    elif kind == "gat":
        width = wide if last else wide // HEADS
        layer = GATConv(narrow, width, HEADS, attn_drop=DROPOUT, allow_zero_in_degree=True)
    else:
        norm = nn.BatchNorm1d(wide)
        layer = GINConv(nn.Sequential(nn.Linear(narrow, wide), norm, nn.ReLU(), nn.Linear(wide, wide)), "sum")
    return layer


def optimizer(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    """Returns Adam in the fastest form that this torch has on a CPU."""
    return torch.optim.Adam(model.parameters(), lr=rate, foreach=True)


class Dgl:
    """DGL 2.1."""

    name = "dgl"

    def __init__(self) -> None:
        self._folder: GraphFolder | None = None
        self._threads = torch.get_num_threads()

    def versions(self) -> dict[str, str]:
        """Returns the versions of DGL and torch."""
        return {"dgl": dgl.__version__, "torch": torch.__version__, "python": platform.python_version()}

    def open(self, folder: str) -> dict[str, int]:
        """Reads the graph; the structures that samplers want are built where they are used."""
        self._folder = GraphFolder.read(folder)
        return self._folder.shape

    def variants(self, work: Work) -> list[str]:
        """Returns GraphBolt by its operators, by its loader, and the older loader, with worker processes."""
        if work.style == "tuned":
            raise Unavailable("DGL's layers take blocks already")
        if work.one_thread:
            return ["graphbolt operators", "dgl sampler"]
        loaders = [f"{kind} loader, {n} workers" for kind in ("graphbolt", "dgl") for n in (0, 1, 2)]
        return ["graphbolt operators", *loaders]

    def batches(self, work: Work, variant: str) -> Iterator[Batch]:
        """Returns mini-batches without end."""
        assert self._folder is not None, "no graph is open"
        torch.manual_seed(_SEED)
        _set_threads(1 if work.one_thread else self._threads)
        epochs = _epochs(self._folder, work, variant)
        if work.one_thread:
            return _timed(epochs, lambda ids, blocks: {}, work)
        features = torch.from_numpy(self._folder.features)
        if work.kind == "load":
            return _timed(epochs, lambda ids, blocks: _gathered(features, ids)[1], work)
        return _timed(epochs, _trainer(self._folder, features, work), work)

    def extra(self, question: str, argument: dict[str, Any]) -> dict[str, Any]:
        """Knows no questions."""
        raise Unavailable(f"dgl's worker does not know {question!r}")


def _timed(
    epochs: Callable[[], Iterator[_Sampled]], finish: Callable[[Tensor, list[Any]], dict[str, float]], work: Work
) -> Iterator[Batch]:
    """Yields a batch for each that `epochs` samples, after `finish`, whose milliseconds are added to the stages."""
    while True:
        begin = perf_counter()
        for index, (ids, blocks, stages) in enumerate(epochs()):
            rest = finish(ids, blocks)
            ms = (perf_counter() - begin) * 1e3
            loss = rest.pop("loss", None)
            # The old sampler's blocks count their edges; GraphBolt's CSC pairs their indices.
            edges = sum(block.num_edges() if hasattr(block, "num_edges") else len(block[0].indices) for block in blocks)
            seeds = int(blocks[-1].num_dst_nodes()) if hasattr(blocks[-1], "num_edges") else len(blocks[-1][1])
            apart = {**stages, **rest} if stages else {}
            yield Batch(index, seeds, ms, apart, len(ids), edges, loss)
            begin = perf_counter()


def _epochs(folder: GraphFolder, work: Work, variant: str) -> Callable[[], Iterator[_Sampled]]:
    weights = None
    if work.kind == "biased":
        hot = torch.from_numpy(folder.hottest(work.cache_share))
        weights = torch.where(hot[torch.from_numpy(folder.indices).long()], work.bias, 1.0)
    if variant == "graphbolt operators":
        graph = _graphbolt(folder, weights)
        return lambda: _by_operators(graph, folder, work)
    if variant.startswith("graphbolt"):
        return _graphbolt_loader(_graphbolt(folder, weights), folder, work, _workers(variant))
    return _old_loader(folder, work, weights, variant)


def _by_operators(graph: Any, folder: GraphFolder, work: Work) -> Iterator[_Sampled]:
    """Yields what GraphBolt's operators sample: pairs of CSC and destinations, made blocks where a model needs them."""
    order = torch.from_numpy(folder.train_ids)[torch.randperm(len(folder.train_ids))].int()
    weighted = "weight" if work.kind == "biased" else None
    for seeds in torch.split(order, work.batch_size):
        begin = perf_counter()
        nodes = seeds
        layers: list[Any] = []
        for fanout in work.fanouts:
            found = graph.sample_neighbors(nodes, torch.tensor([fanout]), probs_name=weighted)
            sources, compact = gb.unique_and_compact_csc_formats(found.sampled_csc, nodes)
            layers.insert(0, (compact, nodes, sources))
            nodes = sources
        blocks = layers if work.kind != "train" else [_block(*layer) for layer in layers]
        yield nodes, blocks, {"sample": (perf_counter() - begin) * 1e3}


def _block(compact: Any, nodes: Tensor, sources: Tensor) -> Any:
    edges = torch.arange(len(compact.indices), dtype=torch.int32)
    csc = ("csc", (compact.indptr.int(), compact.indices.int(), edges))
    return dgl.create_block(csc, num_src_nodes=len(sources), num_dst_nodes=len(nodes))


def _graphbolt(folder: GraphFolder, weights: Tensor | None) -> Any:
    attributes = None if weights is None else {"weight": weights}
    indptr = torch.from_numpy(folder.indptr).int()
    return gb.fused_csc_sampling_graph(indptr, torch.from_numpy(folder.indices), edge_attributes=attributes)


def _graphbolt_loader(graph: Any, folder: GraphFolder, work: Work, workers: int) -> Callable[[], Iterator[_Sampled]]:
    items = gb.ItemSet(torch.from_numpy(folder.train_ids).int(), names="seed_nodes")
    pipe = gb.ItemSampler(items, batch_size=work.batch_size, shuffle=True)
    # Fanouts come input layer first here.
    pipe = pipe.sample_neighbor(graph, [torch.tensor([fanout]) for fanout in reversed(work.fanouts)])
    # The loader puts all before this stage into worker processes; features are read after it, into the same buffer
    # that the other variants use.
    pipe = pipe.fetch_feature(gb.BasicFeatureStore({}))
    loader = gb.DataLoader(pipe, num_workers=workers)

    def batches() -> Iterator[_Sampled]:
        for batch in loader:
            yield batch.node_ids(), batch.blocks, {}

    return batches


def _old_loader(
    folder: GraphFolder, work: Work, weights: Tensor | None, variant: str
) -> Callable[[], Iterator[_Sampled]]:
    # With 32-bit ids DGL 2.1's fused sampler writes past its arrays; its default of 64 bits is measured.
    csc = (torch.from_numpy(folder.indptr), torch.from_numpy(folder.indices).long(), torch.empty(0, dtype=torch.int64))
    graph = dgl.graph(("csc", csc), num_nodes=len(folder.indptr) - 1)
    if weights is not None:
        graph.edata["weight"] = weights
    prob = None if weights is None else "weight"
    sampler = dgl.dataloading.NeighborSampler(list(reversed(work.fanouts)), prob=prob)
    train = torch.from_numpy(folder.train_ids)
    if work.one_thread:
        return lambda: _old_sampler(graph, sampler, train, work.batch_size)
    workers = _workers(variant)
    loader = dgl.dataloading.DataLoader(
        graph,
        train,
        sampler,
        batch_size=work.batch_size,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )

    def batches() -> Iterator[_Sampled]:
        for ids, _, blocks in loader:
            yield ids, blocks, {}

    return batches


def _old_sampler(graph: Any, sampler: Any, train: Tensor, batch_size: int) -> Iterator[_Sampled]:
    for seeds in torch.split(train[torch.randperm(len(train))], batch_size):
        begin = perf_counter()
        ids, _, blocks = sampler.sample_blocks(graph, seeds)
        yield ids, blocks, {"sample": (perf_counter() - begin) * 1e3}


def _gathered(features: Tensor, ids: Tensor) -> tuple[Tensor, dict[str, float]]:
    begin = perf_counter()
    x = torch.index_select(features, 0, ids)
    return x, {"gather": (perf_counter() - begin) * 1e3}


def _trainer(folder: GraphFolder, features: Tensor, work: Work) -> Callable[[Tensor, list[Any]], dict[str, float]]:
    widths = [features.shape[1], *[work.hidden] * (len(work.fanouts) - 1), folder.num_classes]
    model = BlockModel(work.model, widths)
    adam, labels = optimizer(model, LEARNING_RATE), torch.from_numpy(folder.labels)

    def step(ids: Tensor, blocks: list[Any]) -> dict[str, float]:
        x, stages = _gathered(features, ids)
        begin = perf_counter()
        adam.zero_grad()
        # Sources begin with the destinations, so a batch's ids begin with its seeds.
        loss = functional.cross_entropy(model(blocks, x), labels[ids[: blocks[-1].num_dst_nodes()].long()])
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        value = loss.item()
        return {**stages, "model": (perf_counter() - begin) * 1e3, "loss": value}

    return step


def _workers(variant: str) -> int:
    return int(variant.split(", ")[1].split()[0])


def _set_threads(count: int) -> None:
    torch.set_num_threads(count)
    dgl.utils.set_num_threads(count)


if __name__ == "__main__":
    serve(Dgl())
