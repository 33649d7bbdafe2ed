import copy
import gc
import pickle
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GAT, GCN, GIN, GraphSAGE

from a3gnn.acceleration.accelerate import accelerate
from a3gnn.errors import MemoryLimitError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.limited import CutBatch
from a3gnn.loader.loader import Loader
from a3gnn.process.heap import trim_heap
from a3gnn.process.memory_guard import host_bytes
from tests.loader.alone import alone

MIB = 1 << 20
PLENTY = 1 << 50
#: Bytes above those in use from which the first mini-batch of `data` is cut: the first guess is several times as much.
TIGHT = 48 * MIB


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("a3gnn-memory")]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.load("synthetic:nodes=4000,degree=8,classes=4,features=16")


@pytest.fixture(scope="module")
def data(graph: Graph) -> Data:
    found: Data = graph.to_pyg()
    return found


def above(nbytes: int) -> int:
    gc.collect()
    trim_heap()
    return host_bytes() + nbytes


def loader_of(data: Any, limit: int | None, **more: Any) -> Loader:
    given = {"num_neighbors": [5, 5], "batch_size": 500, "memory_limit": limit} | more
    return Loader(data, **given)


def gradients(model: nn.Module) -> torch.Tensor:
    return torch.cat([weight.grad.ravel() for weight in model.parameters() if weight.grad is not None])


def loss_of(model: nn.Module, share: Any) -> torch.Tensor:
    out = model(share.x.double(), share.edge_index)[: share.batch_size]
    return functional.cross_entropy(out, share.y[: share.batch_size])


def train(model: nn.Module, batches: Iterable[Any], more: Callable[[], object] = lambda: None) -> list[int]:
    """Trains on all shares, does `more` beside each, and returns the shares of each mini-batch."""
    counts = []
    for batch in batches:
        model.zero_grad()
        counts.append(0)
        for share in batch.shares():
            (loss_of(model, share) * share.seed_share).backward()
            counts[-1] += 1
            more()
    return counts


MODELS: dict[str, Callable[[], nn.Module]] = {
    "sage": lambda: GraphSAGE(16, 128, num_layers=2, out_channels=4),
    "gcn": lambda: GCN(16, 128, num_layers=2, out_channels=4),
    "gat": lambda: GAT(16, 128, num_layers=2, out_channels=4, heads=2),
    "gin": lambda: GIN(16, 128, num_layers=2, out_channels=4),
}


#: Each model either way; the rest is weekly.
EITHER_WAY = [
    pytest.param(name, known, marks=[] if known == at % 2 else pytest.mark.weekly)
    for at, name in enumerate(MODELS)
    for known in (False, True)
]


@pytest.mark.parametrize(("name", "known"), EITHER_WAY)
def test_gradients_of_shares_are_those_of_the_mini_batch(name: str, known: bool, data: Data) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().double()
    expected = []
    for whole in islice(loader_of(data, None), 3):
        model.zero_grad()
        loss_of(model, whole).backward()
        expected.append((whole.input_id, gradients(model)))
    model.zero_grad()
    del whole
    # Whether the model is known decides the first guess, and a first mini-batch is cut if it exceeds the room.
    limited = loader_of(data, above(3 * TIGHT // 4 if known else TIGHT), model=model if known else None)
    for cut, (input_id, uncut) in zip(limited, expected, strict=False):
        model.zero_grad()
        weight, ids = 0.0, []
        for share in cut.shares():
            (loss_of(model, share) * share.seed_share).backward()
            weight += share.seed_share
            ids.append(share.input_id)
        assert weight == pytest.approx(1)
        assert torch.equal(torch.cat(ids), input_id)
        assert (gradients(model) - uncut).abs().max() < 1e-12 * uncut.abs().max() + 1e-15
    assert limited.limited is not None
    assert len(limited) == 8
    assert limited.limited.cut >= 1
    assert limited.limited.shares > limited.limited.cut


@pytest.mark.parametrize("name", MODELS)
def test_accelerated_models_read_shares(name: str, data: Data) -> None:
    torch.manual_seed(0)
    plain = MODELS[name]().double()
    model = accelerate(copy.deepcopy(plain))
    expected = []
    for whole in islice(loader_of(data, None), 3):
        for one in (plain, model):  # the second loads kernels before the limit counts
            one.zero_grad()
            loss_of(one, whole).backward()
        expected.append(gradients(plain))
    model.zero_grad()
    del whole
    limited = loader_of(data, above(TIGHT), model=model)
    for cut, uncut in zip(limited, expected, strict=False):
        model.zero_grad()
        for share in cut.shares():
            (loss_of(model, share) * share.seed_share).backward()
        assert (gradients(model) - uncut).abs().max() < 1e-10 * uncut.abs().max()
    assert limited.limited is not None
    assert limited.limited.cut >= 1


def test_outputs_in_evaluation_are_in_the_order_of_the_seeds(data: Data) -> None:
    torch.manual_seed(0)
    model = MODELS["gcn"]().double().eval()
    limited = loader_of(data, above(TIGHT))
    with torch.no_grad():
        for cut, whole in zip(limited, loader_of(data, None), strict=True):
            found = [model(share.x.double(), share.edge_index)[: share.batch_size] for share in cut.shares()]
            expected = model(whole.x.double(), whole.edge_index)[: whole.batch_size]
            assert torch.allclose(torch.cat(found), expected, rtol=0, atol=1e-13)
    assert limited.limited is not None
    assert limited.limited.cut >= 1


def test_with_enough_memory_a_mini_batch_is_its_only_share(data: Data) -> None:
    limited, plain = loader_of(data, PLENTY), loader_of(data, None)
    for batch, whole in zip(limited, plain, strict=True):
        shares = list(batch.shares())
        assert [share is batch for share in shares] == [True]
        assert batch.seed_share == 1
        assert isinstance(batch, Data)
        for name in ("x", "y", "edge_index", "n_id", "e_id", "input_id"):
            assert torch.equal(batch[name], whole[name])
        assert batch.num_sampled_edges == whole.num_sampled_edges
    assert limited.limited is not None
    assert (limited.limited.cut, limited.limited.shares) == (0, 0)


def test_a_loop_without_shares_works_while_it_fits(data: Data) -> None:
    model = MODELS["sage"]().double()
    limited = loader_of(data, PLENTY, shuffle=True, num_workers=2)
    for _ in range(2):
        for batch in limited:
            loss_of(model, batch).backward()
    assert limited.limited is not None
    assert limited.limited.most_bytes > 0


def test_a_loop_without_shares_is_told_them(data: Data) -> None:
    model = MODELS["sage"]().double()
    limited = loader_of(data, above(MIB), num_neighbors=[10, 10])
    batch = next(iter(limited))
    assert isinstance(batch, CutBatch)
    assert batch.batch_size == len(batch.input_id) == 500
    assert torch.equal(batch.n_id[:500], batch.input_id)
    with pytest.raises(MemoryLimitError, match=r"x is in the shares .* batch.shares\(\)"):
        loss_of(model, batch)
    with pytest.raises(AttributeError):
        batch._private  # noqa: B018


def test_a_loop_without_shares_stops_at_the_limit(data: Data) -> None:
    limited, held = loader_of(data, above(TIGHT)), []
    batches = iter(limited)
    batch = next(batches)
    assert isinstance(batch, Data)
    held.append(torch.ones(3 * TIGHT // 4))  # the user's model: 4 bytes each
    with pytest.raises(MemoryLimitError, match=r"must keep to .* took .* Loop over shares"):
        next(batches)


def test_memory_beside_the_shares_is_told_once(data: Data) -> None:
    limited = loader_of(data, above(TIGHT))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        batches = iter(limited)
        train(MODELS["sage"]().double(), islice(batches, 1))
        torch.ones(TIGHT // 2)  # 4 bytes each
        train(MODELS["sage"]().double(), islice(batches, 1))
        torch.ones(TIGHT // 2)
        train(MODELS["sage"]().double(), islice(batches, 1))
    assert ["above memory_limit" in str(one.message) for one in warned] == [True]


@alone
@pytest.mark.parametrize("known", [True, pytest.param(False, marks=pytest.mark.weekly)])
def test_what_can_not_be_done_is_said_with_the_limit_that_would_do(known: bool, data: Data) -> None:
    model = GraphSAGE(16, 2048, num_layers=3, out_channels=4).double()  # its gradients take 65 MiB, whatever the share
    limit = above(40 * MIB)
    limited = loader_of(data, limit, model=model if known else None, num_neighbors=[2, 2, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if not known else "error")  # an unknown model's first share may pass the limit
        with pytest.raises(MemoryLimitError, match=r"memory_limit must be at least .* for this loop") as raised:
            train(model, limited)
    assert limited.limited is not None
    assert limited.limited.least_bytes is not None
    assert limited.limited.least_bytes - limit > 24 * MIB
    assert "take smaller fanouts" in str(raised.value)


def test_a_limit_below_the_memory_in_use_is_refused(data: Data) -> None:
    with pytest.raises(MemoryLimitError, match="memory_limit must be above the memory in use"):
        loader_of(data, host_bytes() - 64 * MIB)
    with pytest.raises(UsageError, match="memory_limit must be at least"):
        loader_of(data, 4)


def test_batch_norms_keep_mini_batches_whole(data: Data) -> None:
    model = GraphSAGE(16, 32, num_layers=2, out_channels=4, norm="batch_norm").double()
    limited = loader_of(data, above(TIGHT), model=model)
    assert train(model, limited) == [1] * 8
    unknown = loader_of(data, above(TIGHT))
    with pytest.raises(UsageError, match=r"BatchNorm computes from all rows .* pass model=model"):
        train(model, unknown)
    evaluated = loader_of(data, above(8 * MIB), model=model)
    assert sum(train(model.eval(), evaluated)) > 8


@alone
@pytest.mark.filterwarnings("ignore:the loop took")
def test_batch_norms_run_at_the_limit_that_an_error_names(data: Data) -> None:
    model = GraphSAGE(16, 128, num_layers=2, out_channels=4, norm="batch_norm").double()
    next(iter(loader_of(data, None)))  # loads kernels, whose size is none of the limit's business
    limited = loader_of(data, above(6 * MIB), model=model, num_neighbors=[10, 10])
    with pytest.raises(MemoryLimitError, match="memory_limit must be at least"):
        train(model, limited)
    assert limited.limited is not None
    least = limited.limited.least_bytes
    assert least is not None
    for _ in range(6):  # a first pass is refused by what is certain, a later one by what was measured
        again = loader_of(data, least, model=model, num_neighbors=[10, 10])
        assert again.limited is not None
        try:
            assert train(model, again) == [1] * 8
            return
        except MemoryLimitError:
            assert again.limited.least_bytes is not None
            assert again.limited.least_bytes > least
            least = again.limited.least_bytes
    pytest.fail("no named limit did")


@alone
def test_evaluation_after_training_is_cut_no_more_than_it(data: Data) -> None:
    model = MODELS["sage"]().double()
    limited = loader_of(data, above(2 * TIGHT))
    trained = train(model, limited)
    with torch.no_grad():
        evaluated = [sum(1 for share in batch.shares() if len(loss_of(model, share).shape) == 0) for batch in limited]
    assert trained[0] > trained[-1] == 1
    assert evaluated[-1] == 1


def test_batch_norms_that_do_not_fit_are_refused(data: Data) -> None:
    model = GraphSAGE(16, 32, num_layers=2, out_channels=4, norm="batch_norm")
    limited = loader_of(data, above(MIB), model=model, num_neighbors=[10, 10])
    with pytest.raises(MemoryLimitError, match=r"can't be cut, because BatchNorm .* torch.nn.LayerNorm"):
        for _ in next(iter(limited)).shares():
            pass


@alone
def test_a_model_that_reads_further_is_cut_for(data: Data) -> None:
    torch.manual_seed(0)
    lin = nn.Linear(16, 4).double()

    class Far(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin, self.far = lin, APPNP(K=5, alpha=0.1)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.far(self.lin(x), edges)

    model = Far()
    with pytest.raises(UsageError, match="pass model=model to Loader, which then cuts for it"):
        train(model, loader_of(data, above(TIGHT)))
    limited = loader_of(data, above(8 * MIB), model=model)
    whole, cut = next(iter(loader_of(data, None))), next(iter(limited))
    with torch.no_grad():
        found = [model(share.x.double(), share.edge_index)[: share.batch_size] for share in cut.shares()]
        expected = model(whole.x.double(), whole.edge_index)[: whole.batch_size]
    assert len(found) > 1
    assert torch.allclose(torch.cat(found), expected, rtol=0, atol=1e-13)


def test_shares_are_transformed(data: Data) -> None:
    def marked(batch: Data) -> Data:
        batch.mark = batch.num_nodes
        return batch

    limited = loader_of(data, above(TIGHT), transform=marked)
    shares = list(next(iter(limited)).shares())
    assert len(shares) > 1
    assert all(share.mark == share.num_nodes for share in shares)
    with pytest.raises(UsageError, match="transform must return an object that takes attributes"):
        next(iter(loader_of(data, PLENTY, transform=lambda batch: (batch.x, batch.y))))


def test_chosen_seeds_have_shares_too(data: Data) -> None:
    shares = list(loader_of(data, above(TIGHT))(list(range(500))).shares())
    assert len(shares) > 1
    assert torch.cat([share.input_id for share in shares]).tolist() == list(range(500))


def test_a_copied_mini_batch_has_its_data_but_no_shares(data: Data) -> None:
    batch = next(iter(loader_of(data, PLENTY)))
    for other in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch)):
        assert torch.equal(other.x, batch.x)
        with pytest.raises(UsageError, match="got a copy"):
            other.shares()


def test_a_mini_batch_is_freed_at_once(data: Data) -> None:
    """A mini-batch that refers to itself would wait for Python's garbage collector, with all its memory."""
    gc.collect()
    gc.disable()
    try:
        count = sum(type(one) is Data for one in gc.get_objects())
        for batch in loader_of(data, above(TIGHT)):
            for share in batch.shares():
                assert share.num_nodes
        del batch, share
        assert sum(type(one) is Data for one in gc.get_objects()) <= count
    finally:
        gc.enable()


def test_a_loader_with_a_limit_can_be_pickled(data: Data) -> None:
    limited = pickle.loads(pickle.dumps(loader_of(data, PLENTY, model=MODELS["sage"]())))
    assert limited.limited.limit_bytes == PLENTY
    assert next(iter(limited)).seed_share == 1


def test_arguments_that_a_limit_does_not_support(data: Data) -> None:
    for more, message in (
        ({"subgraph_type": "induced"}, "needs subgraph_type='directional'"),
        ({"share": (0, 2)}, "must be left out with share"),
        ({"model": "sage"}, "model must be a torch.nn.Module"),
    ):
        with pytest.raises(UsageError, match=message):
            loader_of(data, PLENTY, **more)
    with pytest.raises(UsageError, match="needs a loader without memory_limit"):
        next(loader_of(data, PLENTY).minibatches())


@pytest.mark.parametrize("config", [{}, {"num_partitions": 2, "partitioner": "blocks"}, {"cache_bytes": 1 << 16}])
def test_knobs_change_nothing(config: dict[str, Any], data: Data) -> None:
    plain, limited = loader_of(data, None, config=config), loader_of(data, above(TIGHT), config=config)
    for whole, cut in zip(plain, limited, strict=True):
        found = torch.cat([share.x[: share.batch_size] for share in cut.shares()])
        assert torch.equal(found, whole.x[: whole.batch_size])


def test_features_stay_on_disk_if_they_would_take_the_memory(tmp_path: Path) -> None:
    graph = Graph.load("synthetic:nodes=100000,degree=2,classes=4,features=128").save(tmp_path / "graph")  # 49 MiB
    plain, roomy = loader_of(graph, None), loader_of(graph, above(400 * MIB))
    scarce = loader_of(graph, above(80 * MIB))
    held = [loader._pipeline.store.host_bytes >> 20 for loader in (plain, roomy, scarce)]
    assert held[0] == held[1] >= 48
    assert held[2] == 0
    batch = next(iter(scarce))
    ids = batch.n_id.numpy()
    x = np.concatenate([share.x.numpy()[: share.batch_size] for share in batch.shares()])
    assert np.array_equal(x, graph.features.array[ids[:500]])


@alone
@pytest.mark.filterwarnings("ignore:the loop took")
def test_features_go_to_disk_before_a_mini_batch_is_cut(tmp_path: Path) -> None:
    graph = Graph.load("synthetic:nodes=100000,degree=8,classes=4,features=128").save(tmp_path / "graph")
    limited = loader_of(graph, above(110 * MIB), batch_size=200)
    assert limited._pipeline.store.host_bytes > 48 * MIB
    train(GraphSAGE(128, 512, num_layers=2, out_channels=4).double(), islice(limited, 3))
    assert limited._pipeline.store.host_bytes == 0
