"""`LimitedBatches`: mini-batches within a memory limit, cut into shares if they would pass it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple, NoReturn, TypeAlias
from weakref import WeakSet, ref

import torch
from torch import nn

from a3gnn.config import TrainConfig
from a3gnn.errors import MemoryLimitError, UsageError
from a3gnn.evaluation.input_table import FullTable
from a3gnn.features.opening import is_on_disk
from a3gnn.features.stored_rows import rows_of
from a3gnn.features.typed_store import TypedStore
from a3gnn.loader.memory_model import MOST_GROWTH, Level, MemoryLevel, MemoryModel, Size
from a3gnn.loader.model_reading import ModelWatch, cannot_cut, mixing_module, reach_of, width_of
from a3gnn.loader.pyg_source import Source, source_of
from a3gnn.loader.seeds import SeedFields
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.pipeline import Pipeline
from a3gnn.process.memory_guard import host_bytes
from a3gnn.sampling.exact_share import Reach, exact_share
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.units import count, format_size

# Numbers that name no evidence of their own were tested together: 960 unseen cases of `python -m
# benchmarks.memory_contract`, whose results docs/design/engine.md lists.
# The first share of a loop is this part of its mini-batch, because nothing is known yet.
_FIRST = 1 / 16
# Rows of a model's width that a pass keeps in each layer, per node and per edge, before one was measured, and bytes
# beside them. By 80 first passes of `python -m benchmarks.memory_contract` (cases 5000 to 5079), of which the largest
# took .99 of the estimate.
_ROWS_PER_NODE, _ROWS_PER_EDGE, _BESIDE_ROWS = 8, 5, 2 << 20
# The width of a model that isn't known, and the factor of its estimate.
_WIDTH, _SAFETY = 256, 4
# A first mini-batch is loaded whole if it leaves this many times its own bytes: the loop may not ask for shares.
_LEAVES = 4
# A share is planned for this part of what fits, so that most plans hold at once.
_AIM = 0.95
# Most passes whose live blocks are measured, which takes twice the time.
_MEASURED = 16
# A heap that keeps freed pages takes this many times a pass's live blocks at first, and a tenth more each time that
# free blocks had to go back, up to the last: 1.2 to 1.8 times in 20 cases.
_SPREAD, _MORE_SPREAD, _MOST_SPREAD = 1.5, 1.1, 2.0
# Blocks that are mapped take this many times the time, so shares are not made smaller than this part to avoid them. By
# 12 such cases: 1.3 to 3.4 times.
_MAPPED = 2
# A whole mini-batch is served if this many times its live blocks fit. Less of it is mapped then than makes shares
# quicker, by 25 such cases.
_WHOLE = 1.2
# The smallest limit is named with this much more, because it is printed in three digits.
_ROUNDED = 1.01
# A measured pass that takes this many times the predicted bytes, which are an upper bound, has memory beside it.
_SPIKE = 1.5
# Mini-batches after which a loop holds what it will: its optimizer's state, and gradients.
_SETTLED = 3
# Features go to disk from the start if their copy would take more than this part of the memory that is left.
_MOST_FEATURES = 0.5

_LINES = (
    "for share in batch.shares(): loss = loss_fn(model(share.x, share.edge_index)[:share.batch_size], "
    "share.y[:share.batch_size]); (loss * share.seed_share).backward()"
)


#: A user's change of each mini-batch, or None.
Transform: TypeAlias = Callable[[Any], Any] | None


class _Pass(NamedTuple):
    """A pass over a mini-batch or a share that is under way."""

    size: Size
    model: MemoryModel  # learns from it
    held: int  # memory before it that can't be reclaimed
    dropped: int  # bytes in it that the loop frees as it takes the mini-batch or share
    measured: bool  # whether its peak is that of its live blocks


class LimitedBatches:
    """Serves mini-batches so that a loop over their shares keeps a memory limit.

    Args:
        limit_bytes: Most bytes of this process that can't be reclaimed.
        pipeline: Loads deferred mini-batches.
        as_data: Returns a loaded mini-batch, or share, as a `Data`.
        model: The user's model; None recognizes it in the first share.

    Attributes:
        batches: Mini-batches so far.
        cut: Those that were cut.
        shares: Shares of these.
        most_bytes: The highest peak so far.
        least_bytes: The smallest limit that would do, after an error that names it; None before.
    """

    def __init__(
        self,
        limit_bytes: int,
        pipeline: Pipeline,
        as_data: Callable[[MiniBatch, SeedFields], Any],
        model: nn.Module | None,
    ) -> None:
        self._pipeline, self._as_data, self._model = pipeline, as_data, model
        self._modules = WeakSet[nn.Module]([] if model is None else [model])
        self._level = MemoryLevel(limit_bytes)
        self._models = {recorded: MemoryModel() for recorded in (True, False)}
        self._spread, self._keeps, self._passed = _SPREAD, False, False
        self._last: dict[bool, tuple[int, Size]] = {}
        self._seen: set[bool] = set()
        self._reach: Reach | None = None
        self._calls = 0
        self._under_way: _Pass | None = None
        self._whole: ShareLoop | None = None
        self._served: list[tuple[Callable[[], Any], int]] = []
        self._warned = False
        self._settled: int | None = None
        self.least_bytes: int | None = None
        self.batches = self.cut = self.shares = self.most_bytes = 0

    @property
    def limit_bytes(self) -> int:
        """The limit."""
        return self._level.limit_bytes

    def warm_up(self, batch: MiniBatch, seeds: SeedFields) -> None:
        """Compiles or loads the kernels by which `batch`, a deferred one, is cut and loaded, before memory is measured.

        Args:
            batch: A mini-batch of one seed.
            seeds: What it has of it.

        Raises:
            MemoryLimitError: The limit is below the memory in use.
        """
        share = exact_share(batch.subgraph, 0, 1, self._reach_of(batch.subgraph))
        self._as_data(self._pipeline.read(batch, share), seeds)
        used = self._level.trimmed().used
        if used >= self.limit_bytes:
            raise MemoryLimitError(
                f"memory_limit must be above the memory in use, {format_size(used)}, got "
                f"{format_size(self.limit_bytes)}; {self._advice()}"
            )

    def epoch(self, loaded: Iterable[tuple[MiniBatch, SeedFields]], transform: Transform) -> Generator[Any, None, None]:
        """Yields each deferred mini-batch of `loaded`, with what it has of its seeds, in the form for the loop.

        Args:
            loaded: The mini-batches.
            transform: The user's change of mini-batches and shares, or None.

        Raises:
            MemoryLimitError: A mini-batch can't be processed within the limit.
        """
        with self._level.watched():
            try:
                for batch, seeds in loaded:
                    yield self.serve(batch, seeds, transform)
                    self._finish()
            finally:
                self._under_way = self._whole = None

    def serve(self, batch: MiniBatch, seeds: SeedFields, transform: Transform) -> Any:
        """Returns `batch` in the form for the loop: whole if it is expected to fit, else a `CutBatch`."""
        self.batches += 1
        loop = ShareLoop(self, batch, seeds, transform)
        model, size = self._models[torch.is_grad_enabled()], self.size_of(batch.subgraph)
        if len(model):
            loop.whole = loaded = self._fits_whole(size, model)
        else:
            room = self._level.cap_bytes - self._level.trimmed().used
            must = self._mixing() is not None and self._least(size) <= room
            loop.whole = must or self._estimate(batch.subgraph) <= room
            loaded = loop.whole or _LEAVES * self._bytes_of(size) <= room
        if not loaded:
            if (name := self._mixing()) is not None:
                self._refuse(size, model if len(model) else None, cannot_cut(name))
            return CutBatch(loop)
        self._begin(size, model)
        data = self._read(loop, batch.subgraph, seeds)
        data.seed_share = 1.0
        loop.attach(data)
        self._whole = loop
        return data

    def shares_of(self, loop: ShareLoop) -> Iterator[Any]:
        """Yields the shares of a mini-batch; each one's pass ends as the next share is requested.

        Raises:
            MemoryLimitError: A share of one seed would pass the limit.
            UsageError: The model can't be trained on shares.
        """
        batch, recorded = loop.batch, torch.is_grad_enabled()
        model, size = self._models[recorded], self.size_of(batch.subgraph)
        data = loop.data()
        if loop.whole and data is not None:
            with self._watch(batch.subgraph, recorded, is_cut=False):
                yield data
            return
        del data
        self._under_way = self._whole = None
        if self._fits_whole(size, model):
            parts: Iterable[Subgraph] = [batch.subgraph]
        else:
            if (name := self._mixing()) is not None:
                self._refuse(size, model if len(model) else None, cannot_cut(name))
            self.cut += 1
            parts = self._parts(batch.subgraph, model, recorded)
        low = 0
        for part in parts:
            high = low + part.num_seeds
            is_cut = part.num_seeds < batch.num_seeds
            self.shares += is_cut
            self._begin(self.size_of(part), model)
            with self._watch(batch.subgraph, recorded, is_cut=is_cut):
                yield self._share(loop, part, loop.seeds.within(low, high))
            self._note(self._end())
            low = high

    def _share(self, loop: ShareLoop, part: Subgraph, seeds: SeedFields) -> Any:
        data = self._read(loop, part, seeds)
        data.seed_share = part.num_seeds / loop.batch.num_seeds
        return data

    def _read(self, loop: ShareLoop, part: Subgraph, seeds: SeedFields) -> Any:
        data = self._as_data(self._pipeline.read(loop.batch, part), seeds)
        data = data if loop.transform is None else loop.transform(data)
        try:
            known: Callable[[], Any] = ref(data)
            data.seed_share = 1.0
        except (TypeError, AttributeError) as error:
            raise UsageError(
                f"transform must return an object that takes attributes with memory_limit, got {type(data).__name__}"
            ) from error
        self._served = [*self._served[-1:], (known, self._bytes_of(self.size_of(part)))]
        return data

    def _parts(self, whole: Subgraph, model: MemoryModel, recorded: bool) -> Iterator[Subgraph]:
        """Yields the shares of `whole`, each as large as fits when it is requested."""
        low = 0
        while low < whole.num_seeds:
            part = self._largest(whole, low, model, recorded) if len(model) else self._first(whole)
            self._last[recorded] = part.num_seeds, self.size_of(part)
            yield part
            low += part.num_seeds

    def _first(self, whole: Subgraph) -> Subgraph:
        """Returns a first share, small in nodes and edges: neighborhoods of few seeds may be most of the mini-batch."""
        most, room = self.size_of(whole), self._level.cap_bytes - self._level.trimmed().used
        seeds = max(1, int(whole.num_seeds * _FIRST))
        while True:
            part = exact_share(whole, 0, seeds, self._reach_of(whole))
            size = self.size_of(part)
            if seeds == 1 and self._least(size) > room:
                self._refuse(size, None)
            over = max(size.over(most) / _FIRST, self._estimate(part) / max(room, 1))
            if over <= 1 or seeds == 1:
                return part
            seeds = max(1, min(seeds - 1, int(seeds / over)))

    def _largest(self, whole: Subgraph, low: int, model: MemoryModel, recorded: bool) -> Subgraph:
        """Returns the share from seed `low` on that fits, with about as many seeds as each one after it."""
        left, fitting = whole.num_seeds - low, None
        seeds, size = self._last.get(recorded, (whole.num_seeds, self.size_of(whole)))
        room, roomy = self._rooms(size, model)
        most = max(1, int(seeds * min(roomy if roomy >= 1 else room, MOST_GROWTH)))
        seeds = -(-left // -(-left // most))
        while True:
            part = exact_share(whole, low, low + seeds, self._reach_of(whole))
            size = self.size_of(part)
            near = model.within_reach(size) or seeds == 1
            room, roomy = self._rooms(size, model) if near else (1 / 2, 1 / 2)
            if roomy >= 1 or (seeds == 1 and room >= 1):
                return part
            fitting = fitting or (part if room >= 1 else None)
            fewer = max(1, min(seeds - 1, int(seeds * max(roomy, room / _MAPPED) * _AIM)))
            if fitting is not None and fewer < fitting.num_seeds / _MAPPED:
                return fitting
            if seeds == 1:
                rooms = (self._room(self._level.trimmed(collect=collect)) for collect in (False, True))
                if all(model.predict(size) > room for room in rooms):
                    self._refuse(size, model)
                return part
            seeds = fewer

    def _rooms(self, size: Size, model: MemoryModel) -> tuple[float, float]:
        """Returns the room for a pass over its live blocks, and the same for a heap that keeps all freed pages."""
        room, need = self._room(self._level.now()), model.predict(size)
        return room / need, (room - self._level.near_bytes) / (need * self._spread)

    def _fits_whole(self, size: Size, model: MemoryModel) -> bool:
        """Returns whether a pass over a whole mini-batch fits, after features went to disk if that is needed."""
        if not (model.within_reach(size) or (len(model) and self._mixing() is not None)):
            return False
        return self._fits(size, model) or (self._pipeline.features_to_disk() and self._fits(size, model))

    def _fits(self, size: Size, model: MemoryModel) -> bool:
        """Returns whether a whole mini-batch fits, with room for some kept pages if it could be cut instead."""
        need = model.predict(size)
        if self._mixing() is None:
            return _WHOLE * need <= self._room(self._level.now())
        return need <= self._room(self._level.now()) or need <= self._room(self._level.trimmed(collect=True))

    def _room(self, level: Level) -> float:
        """Returns the bytes that a pass may take; the loop drops the last share as it takes the next one."""
        return self._level.cap_bytes - level.used + self._dropped_bytes()

    def _dropped_bytes(self) -> int:
        """Returns the bytes of the last served mini-batch or share, if the loop holds it and dropped the one before."""
        alive = [nbytes for known, nbytes in self._served if known() is not None]
        return alive[0] if len(alive) == 1 else 0

    def _begin(self, size: Size, model: MemoryModel) -> None:
        # A heap that kept pages has free blocks inside, and what fills them stays when it is freed: a peak is too high
        # then. So only what is needed is measured there.
        measured = len(model) < _MEASURED and not model.knows(size)
        measured = measured and (not self._keeps or model.lacks(size))
        level = self._level.trimmed() if measured or self._passed else self._level.now()
        kept = 0.0
        if not measured:
            # Of a heap of `kept` bytes, 1 - 1 / spread serves nothing; blocks that find no room in it are mapped.
            kept = max(0.0, self._room(level) - model.predict(size)) / (1 - 1 / self._spread)
            if level.held - level.used > 2 * kept:
                level = self._level.trimmed()
        ended = self._level.keep(level.used + kept if kept else 0)
        if ended and self._keeps:
            self._spread = min(_MOST_SPREAD, self._spread * _MORE_SPREAD)
        self._keeps |= not measured
        self._note(self._level.peak())
        if self._settled is None and self.batches > _SETTLED:
            self._settled = level.used
        self._under_way = _Pass(size, model, level.held, self._dropped_bytes(), measured)

    def _finish(self) -> None:
        """Ends the pass over a whole mini-batch, or notes the memory of the loop's own work after the last share."""
        loop, self._whole = self._whole, None
        if self._under_way is None:
            self._note(self._level.peak())
            return
        size, model = self._under_way.size, self._under_way.model
        peak = self._end()
        if peak > self._level.cap_bytes and loop is not None and not loop.called:
            need = model.predict(size)
            remedy = f"Loop over shares, which are cut to fit: {_LINES}; or raise memory_limit"
            raise MemoryLimitError(
                f"the loop must keep to {format_size(self._level.cap_bytes)}, but a mini-batch of {_shown(size)} took "
                f"{format_size(peak)}, and the next may take more than {format_size(need)} beside the rest. "
                f"{self._growth(self._level.trimmed().used, need) or remedy}"
            )
        self._note(peak)

    def _end(self) -> int:
        """Ends the pass under way and learns from it; returns its peak."""
        ended, self._under_way = self._under_way, None
        assert ended is not None
        peak = self._level.peak()
        over = peak - self._level.cap_bytes
        self._passed = over > 0
        size, model = ended.size, ended.model
        taken = max(peak - ended.held + ended.dropped, self._bytes_of(size)) if ended.measured else 0
        first = not len(model)
        if first and ended.measured:
            model.add(size, taken)
        elif self._passed or (ended.measured and taken > _SPIKE * model.predict(size)):
            # Not measured: it may be memory beside the pass, such as an evaluation.
            model.exceed(size, over if self._passed else taken - model.predict(size))
        else:
            if ended.measured:
                model.add(size, taken)
            model.keep()
        return peak

    def _note(self, peak: int) -> None:
        self.most_bytes = max(self.most_bytes, peak)
        if peak > self._level.cap_bytes and not self._warned:
            self._warned = True
            warnings.warn(
                f"the loop took {format_size(peak)}, above memory_limit, {format_size(self._level.cap_bytes)}; the "
                "next mini-batches are cut with more margin",
                stacklevel=2,
            )

    def _watch(self, whole: Subgraph, recorded: bool, *, is_cut: bool) -> Any:
        """Returns a context for the user's pass: the first of its kind shows the modules that the loop calls."""
        if recorded in self._seen or self._pipeline.reads_table:  # a watched layer reads no table
            return nullcontext()
        self._seen.add(recorded)
        return ModelWatch(self._reach_of(whole), self._learn, is_cut=is_cut, model=self._model)

    def _learn(self, called: Iterable[nn.Module], calls: int) -> None:
        """Records the modules of the user's model, which its first pass has shown."""
        if self._model is None:
            self._modules.update(called)
        self._calls = max(self._calls, calls)
        self._reach = reach_of(self._modules, self._calls) if self._modules else None

    def _reach_of(self, whole: Subgraph) -> Reach:
        """Returns the part of mini-batches that the model reads; a usual one with degrees until the model is known."""
        if self._reach is None and self._model is not None:
            # Nothing watches how often a model that reads a table calls its layers, so shares suit any number.
            self._reach = Reach(None, degrees=True) if self._pipeline.reads_table else reach_of(self._modules)
        known = self._reach or Reach(whole.num_layers, degrees=True)
        return known if known.layers is None else known._replace(layers=max(known.layers, whole.num_layers))

    def _mixing(self) -> str | None:
        return mixing_module(self._modules)

    def _estimate(self, part: Subgraph) -> float:
        """Returns an estimate of the bytes of a pass before any was measured, too large rather than too small."""
        own, size, layers = self._pipeline.store.num_features, self.size_of(part), part.num_layers
        if self._model is None:
            width, entry_bytes = _SAFETY * max(own, _WIDTH), 4
        else:
            width, layers = max(own, width_of(self._model)), self._reach_of(part).layers or 2 * layers
            entry_bytes = max((weight.element_size() for weight in self._model.parameters()), default=4)
        rows = layers * (_ROWS_PER_NODE * size.nodes + _ROWS_PER_EDGE * size.edges)
        return float(entry_bytes * width * rows + self._least(Size(0, 0, 0)) + _BESIDE_ROWS)

    def _least(self, size: Size) -> int:
        """Returns the bytes that a first pass takes for certain: its features and edges, and the known gradients."""
        weights = [] if self._model is None or not torch.is_grad_enabled() else self._model.parameters()
        missing = [
            weight
            for weight in weights
            if weight.requires_grad and weight.grad is None and not isinstance(weight, nn.UninitializedParameter)
        ]
        return self._bytes_of(size) + sum(weight.nbytes for weight in missing)

    def size_of(self, subgraph: Subgraph) -> Size:
        """Returns the size of a mini-batch or share."""
        store, nodes = self._pipeline.store, subgraph.num_nodes
        if isinstance(store, TypedStore):
            return Size(nodes, subgraph.num_edges, store.served_bytes(subgraph.n_id))
        return Size(nodes, subgraph.num_edges, 4 * store.num_features * nodes)

    def _bytes_of(self, size: Size) -> int:
        """Returns the bytes of a mini-batch's features and edges."""
        return size.inputs + 8 * size.nodes + 16 * size.edges

    def _refuse(self, size: Size, model: MemoryModel | None, reason: str = "") -> NoReturn:
        """Raises the error that names the smallest limit for a pass; without a `model`, the least that it can be."""
        level = self._level.trimmed(collect=True)
        need = self._least(size) if model is None else model.predict(size)
        self.least_bytes = round(_ROUNDED * (level.used - self._dropped_bytes() + need))
        what, takes = "a mini-batch" if reason else "a share of one seed", "takes" if model else "takes more than"
        raise MemoryLimitError(
            f"memory_limit must be at least {format_size(self.least_bytes)} for this loop, got "
            f"{format_size(self._level.limit_bytes)}: {what} of {_shown(size)} {takes} {format_size(need)}, beside "
            f"{format_size(level.used)} in use. {self._growth(level.used, need) or reason or self._advice()}"
        )

    def growth_beside(self, size: Size) -> str:
        """Returns the text about memory that grows outside the loader, if a pass over `size` would fit without it."""
        model = self._models[torch.is_grad_enabled()]
        return self._growth(self._level.trimmed().used, model.predict(size)) if len(model) else ""

    def _growth(self, used: int, need: float) -> str:
        """Returns the text about memory that grows outside the loader, if a pass would fit without it; else ''."""
        if self._settled is None or self._settled + need > self._level.cap_bytes:
            return ""
        return (
            f"Memory in use grew from {format_size(self._settled)} since the first {_SETTLED} mini-batches, though "
            "mini-batches did not: something outside the loader keeps it, such as a list of losses or outputs. Keep "
            "loss.item() and out.detach() there, or raise memory_limit if it must grow"
        )

    def _advice(self) -> str:
        held = self._pipeline.store.host_bytes
        if held < _FIRST * self._level.limit_bytes:
            return "Allow more memory, or take smaller fanouts or a smaller model"
        return (
            f"Features take {format_size(held)} of it: convert the graph to a folder (a3gnn graph convert) and pass "
            "its path, so that they stay on disk"
        )


class ShareLoop:
    """`batch.shares`: called, it returns an iterator over the shares of a mini-batch.

    Args:
        limited: Cuts.
        batch: The deferred mini-batch.
        seeds: What it has of its seeds.
        transform: The user's change of mini-batches and shares, or None.

    Attributes:
        whole: Whether the mini-batch was expected to fit when it was served.
        called: Whether the loop has asked for shares.
    """

    def __init__(self, limited: LimitedBatches, batch: MiniBatch, seeds: SeedFields, transform: Transform) -> None:
        self._limited, self.batch, self.seeds, self.transform = limited, batch, seeds, transform
        self.data: Callable[[], Any] = lambda: None  # a weak reference: the data refers to this loop
        self.whole = self.called = False

    def growth(self) -> str:
        """Returns the text about memory that grows outside the loader, if the mini-batch would fit without it."""
        return self._limited.growth_beside(self._limited.size_of(self.batch.subgraph))

    def attach(self, data: Any) -> None:
        """Gives `data`, the whole mini-batch, the method `shares`."""
        self.data = ref(data)
        vars(data)["shares"] = self

    def __call__(self) -> Iterator[Any]:
        """Returns the shares."""
        self.called = True
        return self._limited.shares_of(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _CopiedLoop, ()


class _CopiedLoop:
    """`shares` of a copied or pickled mini-batch, whose loader is elsewhere."""

    def __call__(self) -> NoReturn:
        raise UsageError("shares() needs a mini-batch as it came from the loader, got a copy; loop over shares first")


class CutBatch:
    """A mini-batch that is not loaded, because it would pass the memory limit as a whole; its shares are.

    Attributes:
        batch_size: Seeds.
        input_id: Their `input_id`, int64.
        n_id: Node ids, int64; the seeds come first. Missing where there are types.
        shares: Returns an iterator over the shares.
    """

    def __init__(self, loop: ShareLoop) -> None:
        self.shares = loop
        self.batch_size, self.input_id = loop.batch.num_seeds, loop.seeds.input_id
        if loop.batch.subgraph.rows is None:
            self.n_id = torch.from_numpy(loop.batch.subgraph.n_id).long()

    def __repr__(self) -> str:
        return f"CutBatch(batch_size={self.batch_size}, num_nodes={self.shares.batch.subgraph.num_nodes})"

    def __getitem__(self, kind: Any) -> NoReturn:
        self.__getattr__(str(kind))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        nodes = count(self.shares.batch.subgraph.num_nodes, "node")
        grown = self.shares.growth()
        raise MemoryLimitError(
            f"{name} is in the shares of this mini-batch, whose {nodes} may pass memory_limit as a whole. "
            f"{grown or f'Loop over them: {_LINES}'}"
        )


def placed(source: Source, config: TrainConfig, limit_bytes: int, *, is_own: bool) -> tuple[Source, TrainConfig]:
    """Returns the source and the configuration, with features on disk if they would take most of the memory.

    Args:
        source: The data.
        config: Its tier and type of features are used.
        limit_bytes: The limit.
        is_own: Whether nobody else refers to the source's arrays, as if it was loaded from a file.
    """
    graph = source.graph
    if not source.reads_x or graph.is_parted or config.feature_tier == "disk":
        return source, config
    of_types = [one for one in source.features if one is not None]
    is_file = graph.folder is not None or all(map(is_on_disk, of_types))
    halved = 2 if config.feature_dtype == "float16" and is_file else 1
    copied, room = sum(rows_of(one).nbytes for one in of_types) // halved, limit_bytes - host_bytes()
    if not is_file:
        room += copied  # it is loaded already
    if copied <= _MOST_FEATURES * room or not (is_file or (is_own and source.of_types is None)):
        return source, config
    return source if is_file else source_of(graph.on_disk()), config.replace(feature_tier="disk")


def check_limited(subgraph_type: str, device: Any, share: Any, model: Any) -> None:
    """Checks that a memory limit supports a loader's other arguments.

    Raises:
        UsageError: It doesn't.
    """
    if subgraph_type != "directional":
        raise UsageError(
            f"memory_limit needs subgraph_type='directional', got {subgraph_type!r}: shares of other mini-batches lack "
            "edges between nodes of different shares"
        )
    if torch.device(device).type != "cpu":
        raise UsageError(f"memory_limit bounds host memory and needs device='cpu', got {device!r}")
    if model is not None and not isinstance(model, nn.Module):
        raise UsageError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if share is not None:
        raise UsageError(f"memory_limit must be left out with share, got share={share!r}: ranks would get out of step")


def check_table(table: FullTable, model: Any) -> None:
    """Checks that a memory limit supports a loader's `table`, which may be empty.

    Raises:
        UsageError: It doesn't.
    """
    if table.rows is not None and model is None:
        raise UsageError("memory_limit with input_aggregation full needs model=model, got none; pass it to Loader")
    if table.aggregator == "gcn" and table.rows is not None:
        raise UsageError(
            "memory_limit needs input_aggregation sampled for gcn, got full, whose degrees a share lacks; tune with "
            "fix={'input_aggregation': 'sampled'}"
        )


def _shown(size: Size) -> str:
    return f"{count(size.nodes, 'node')} and {count(size.edges, 'edge')}"
