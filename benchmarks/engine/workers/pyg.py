"""PyG inside its worker: NeighborLoader over torch-sparse's operator, the best sampler that the package index has."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple

import torch
import torch_geometric
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import MLP, GATConv, GCNConv, GINConv, SAGEConv
from torch_geometric.utils import trim_to_layer

from benchmarks.engine.workers.folder import GraphFolder
from benchmarks.engine.workers.serve import serve
from benchmarks.engine.workers.work import DROPOUT, HEADS, LEARNING_RATE, Batch, Unavailable, Work


class Hops(NamedTuple):
    """How a sampled subgraph grew: nodes and edges that each hop added, the seeds first among the nodes."""

    nodes: list[int]
    edges: list[int]

    @classmethod
    def of(cls, edge_index: Tensor, num_seeds: int, num_nodes: int, hops: int) -> Hops:
        """Returns the hops of edges (sources, destinations) in the order in which NeighborLoader found them.

        torch-sparse's operator returns no counts per hop; they are derived from destinations and sources, which ascend.
        """
        sources, destinations = edge_index
        known, done, nodes, edges = num_seeds, 0, [num_seeds], []
        for hop in range(hops):
            end = int(torch.searchsorted(destinations, known))
            last = hop == hops - 1
            met = num_nodes if last else max(known, int(sources[done:end].max()) + 1 if end > done else known)
            nodes.append(met - known)
            edges.append(end - done)
            known, done = met, end
        return cls(nodes, edges)


class EdgeModel(nn.Module):
    """PyG's convolutions on `edge_index`, with or without `trim_to_layer`."""

    def __init__(self, kind: str, widths: list[int], trim: bool) -> None:
        super().__init__()
        self.convs = _convolutions(kind, widths)
        self._trim = trim

    def forward(self, x: Tensor, edge_index: Tensor, hops: Hops) -> Tensor:
        """Returns logits whose first rows are the seeds'."""
        for i, conv in enumerate(self.convs):
            if self._trim:
                x, edge_index, _ = trim_to_layer(i, hops.nodes, hops.edges, x, edge_index)
            x = conv(x, edge_index)
            if i < len(self.convs) - 1:
                x = functional.dropout(functional.relu(x), DROPOUT, self.training)
        return x


class BlockModel(nn.Module):
    """The same parameters over a CSR block per layer: only destinations are computed, the cheaper side is mapped first.

    Attention has no CSR form in PyG: there the convolution itself runs on the layer's bipartite edges.
    """

    def __init__(self, kind: str, widths: list[int]) -> None:
        super().__init__()
        self.convs = _convolutions(kind, widths)
        self._kind = kind

    def forward(self, x: Tensor, edge_index: Tensor, hops: Hops) -> Tensor:
        """Returns the seeds' logits."""
        depth = len(self.convs)
        degrees = torch.bincount(edge_index[1], minlength=len(x))
        for i, conv in enumerate(self.convs):
            num_dst, num_edges = sum(hops.nodes[: depth - i]), sum(hops.edges[: depth - i])
            edges = edge_index[:, :num_edges]
            x = self._layer(conv, x, edges, degrees[: len(x)], num_dst)
            if i < depth - 1:
                x = functional.dropout(functional.relu(x), DROPOUT, self.training)
        return x

    def _layer(self, conv: Any, x: Tensor, edges: Tensor, degrees: Tensor, num_dst: int) -> Tensor:
        """Returns the destinations' output of one convolution, computed by hand but for attention."""
        out: Tensor
        if self._kind == "gat":
            out = conv((x, x[:num_dst]), edges)
        elif self._kind == "sage":
            narrower = conv.out_channels < x.shape[1]
            mean = _aggregate(x @ conv.lin_l.weight.t() if narrower else x, edges, num_dst, "mean")
            own = conv.lin_r(x[:num_dst]) + conv.lin_l.bias
            out = own + (mean if narrower else mean @ conv.lin_l.weight.t())
        elif self._kind == "gin":
            out = conv.nn(_aggregate(x, edges, num_dst, "sum") + x[:num_dst])
        else:
            scale = (degrees + 1).to(x.dtype).rsqrt()
            narrower = conv.out_channels < x.shape[1]
            mapped = x @ conv.lin.weight.t() if narrower else x
            weights = scale[edges[0]] * scale[edges[1]]
            total = _aggregate(mapped, edges, num_dst, "sum", weights) + mapped[:num_dst] * scale[:num_dst, None] ** 2
            out = (total if narrower else total @ conv.lin.weight.t()) + conv.bias
        return out


def _aggregate(x: Tensor, edges: Tensor, num_dst: int, reduce: str, weights: Tensor | None = None) -> Tensor:
    sources, destinations = edges
    pointers = torch.searchsorted(destinations, torch.arange(num_dst + 1))
    values = torch.ones(len(sources)) if weights is None else weights
    with torch.no_grad():
        matrix = torch.sparse_csr_tensor(pointers, sources, values, (num_dst, len(x)), check_invariants=False)
    product: Tensor = torch.sparse.mm(matrix, x, reduce)  # differentiates in half the time of the plain product
    return product


def _convolutions(kind: str, widths: list[int]) -> nn.ModuleList:
    convs = nn.ModuleList()
    for i, (narrow, wide) in enumerate(pairwise(widths)):
        last = i == len(widths) - 2
        if kind == "sage":
            convs.append(SAGEConv(narrow, wide))
        elif kind == "gcn":
            convs.append(GCNConv(narrow, wide))
        elif kind == "gat":
            width = wide if last else wide // HEADS
            convs.append(GATConv(narrow, width, HEADS, concat=not last, dropout=DROPOUT))
        else:
            convs.append(GINConv(MLP([narrow, wide, wide], norm="batch_norm")))
    return convs


_SEED = 1
_Finish = Callable[[Any], dict[str, float]]


class TimedLoader(NeighborLoader):  # type: ignore[misc]
    """NeighborLoader that times sampling and joining; only valid where both run in this process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.stages: dict[str, float] = {}
        super().__init__(*args, **kwargs)

    def collate_fn(self, index: Any) -> Any:
        """Returns what `NeighborLoader.collate_fn` returns: sampled ids."""
        begin = perf_counter()
        sampled = super().collate_fn(index)
        self.stages["sample"] = (perf_counter() - begin) * 1e3
        return sampled

    def filter_fn(self, out: Any) -> Any:
        """Returns what `NeighborLoader.filter_fn` returns: the mini-batch with its features."""
        begin = perf_counter()
        batch = super().filter_fn(out)
        self.stages["gather"] = (perf_counter() - begin) * 1e3
        return batch


class PyG:
    """PyG 2.8."""

    name = "pyg"

    def __init__(self) -> None:
        self._folder: GraphFolder | None = None
        self._data: Data | None = None
        self._threads = torch.get_num_threads()

    def versions(self) -> dict[str, str]:
        """Returns the versions of PyG, its sampler and torch."""
        found = {"torch_geometric": torch_geometric.__version__, "torch": torch.__version__}
        if torch_geometric.typing.WITH_TORCH_SPARSE:
            import torch_sparse  # type: ignore[import-not-found]

            found["torch_sparse"] = torch_sparse.__version__
        return {**found, "python": platform.python_version()}

    def open(self, folder: str) -> dict[str, int]:
        """Reads the graph; edges are already sorted by destination, and the loader is told so."""
        graph = self._folder = GraphFolder.read(folder)
        return graph.shape

    def variants(self, work: Work) -> list[str]:
        """Returns the operator, or the loader with worker processes and, as examples do, with and without trimming."""
        if not torch_geometric.typing.WITH_TORCH_SPARSE:
            raise Unavailable("torch-sparse is not installed")
        if work.kind == "biased":
            raise Unavailable("torch-sparse has no weighted operator")
        if work.one_thread:
            return ["torch-sparse operator"]
        loaders = [f"{n} workers" for n in (0, 1, 2)]
        if work.kind == "load" or work.style == "tuned":
            return loaders
        return [f"{loader}{trim}" for trim in (", trimmed", "") for loader in loaders]

    def batches(self, work: Work, variant: str) -> Iterator[Batch]:
        """Returns mini-batches without end."""
        assert self._folder is not None, "no graph is open"
        torch.manual_seed(_SEED)
        torch.set_num_threads(1 if work.one_thread else self._threads)
        if work.one_thread:
            return _sampled(self._folder, work)
        loader = self._loader(work, int(variant.split()[0]))
        if work.kind == "load":
            return _timed(loader, lambda batch: {})
        return _timed(loader, _trainer(self._folder, work, trim="trimmed" in variant))

    def extra(self, question: str, argument: dict[str, Any]) -> dict[str, Any]:
        """Answers no questions."""
        raise Unavailable(f"pyg's worker does not know {question!r}")

    def _loader(self, work: Work, workers: int) -> TimedLoader:
        data = self._data = self._data or _data(self._opened)
        return TimedLoader(
            data,
            num_neighbors=list(work.fanouts),
            batch_size=work.batch_size,
            input_nodes=torch.from_numpy(self._opened.train_ids),
            shuffle=True,
            is_sorted=True,
            num_workers=workers,
            persistent_workers=workers > 0,
        )

    @property
    def _opened(self) -> GraphFolder:
        assert self._folder is not None, "no graph is open"
        return self._folder


def _data(graph: GraphFolder) -> Data:
    counts = torch.from_numpy(graph.indptr).diff()
    edge_index = torch.empty((2, len(graph.indices)), dtype=torch.int64)
    edge_index[0] = torch.from_numpy(graph.indices)
    edge_index[1] = torch.arange(len(counts)).repeat_interleave(counts, output_size=len(graph.indices))
    return Data(x=torch.from_numpy(graph.features), y=torch.from_numpy(graph.labels), edge_index=edge_index)


def _sampled(graph: GraphFolder, work: Work) -> Iterator[Batch]:
    """Yields what NeighborLoader's sampler calls, without the loader around it."""
    pointers, sources = torch.from_numpy(graph.indptr), torch.from_numpy(graph.indices).long()
    train, fanouts = torch.from_numpy(graph.train_ids), list(work.fanouts)
    while True:
        for index, seeds in enumerate(torch.split(train[torch.randperm(len(train))], work.batch_size)):
            begin = perf_counter()
            nodes, rows, _, _ = torch.ops.torch_sparse.neighbor_sample(pointers, sources, seeds, fanouts, False, True)
            ms = (perf_counter() - begin) * 1e3
            yield Batch(index, len(seeds), ms, {"sample": ms}, len(nodes), len(rows))


def _timed(loader: TimedLoader, finish: _Finish) -> Iterator[Batch]:
    while True:
        begin = perf_counter()
        for index, batch in enumerate(loader):
            rest = finish(batch)
            ms = (perf_counter() - begin) * 1e3
            loss = rest.pop("loss", None)
            stages = {**loader.stages, **rest} if loader.num_workers == 0 else {}
            yield Batch(index, batch.batch_size, ms, stages, batch.num_nodes, batch.edge_index.shape[1], loss)
            begin = perf_counter()


def _trainer(graph: GraphFolder, work: Work, trim: bool) -> _Finish:
    widths = [graph.features.shape[1], *[work.hidden] * (len(work.fanouts) - 1), graph.num_classes]
    model = BlockModel(work.model, widths) if work.style == "tuned" else EdgeModel(work.model, widths, trim)
    fused = True if work.style == "tuned" else None  # examples leave it to torch
    adam = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=fused)

    def step(batch: Any) -> dict[str, float]:
        begin = perf_counter()
        seeds = batch.batch_size
        adam.zero_grad()
        hops = Hops.of(batch.edge_index, batch.batch_size, batch.num_nodes, len(work.fanouts))
        out = model(batch.x, batch.edge_index, hops)[:seeds]
        loss = functional.cross_entropy(out, batch.y[:seeds])
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        value = loss.item()
        return {"model": (perf_counter() - begin) * 1e3, "loss": value}

    return step


if __name__ == "__main__":
    serve(PyG())
