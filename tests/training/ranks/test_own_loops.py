"""Loops of one's own over shares come to what one process comes to with whole mini-batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from a3gnn import Graph, Loader, Task
from a3gnn.apply.predict import predict
from a3gnn.errors import ConfigError, UsageError
from a3gnn.training.batch_model import BatchModel
from a3gnn.training.saved_model import SavedModel
from tests.training.ranks.launched import run_loop

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
FANOUTS = (5, 3)


def model_of(name: str, graph: Graph, **others: Any) -> BatchModel:
    task = Task(model=name, hidden_channels=16, heads=2, fanouts=FANOUTS, **others)
    return BatchModel(task, graph.num_features, graph.num_classes, dtype=torch.float64).double()


def loader_of(graph: Graph, share: tuple[int, int] | None = None) -> Loader:
    return Loader(graph, FANOUTS, range(301), batch_size=100, shuffle=True, share=share)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.weekly)])
def test_ddp_and_fsdp_equal_one_process(processes, small_folder_graph, tmp_path):
    from tests.training.ranks import own_loops

    graph, path = Graph.load(small_folder_graph.folder), tmp_path / "found.pt"
    run_loop(Path(own_loops.__file__), small_folder_graph.folder, path, processes=processes)
    found = torch.load(path, weights_only=True)
    for case in (*own_loops.TASKS, *own_loops.OWN):
        expected = own_loops.trained(case, graph)
        fresh = own_loops.fresh(case, graph)
        assert max(float((expected[name] - value).abs().max()) for name, value in fresh.items()) > 0.01
        for wrap in own_loops.WRAPS:
            weights = found[case, wrap]
            assert weights.keys() == expected.keys()
            for name, value in weights.items():
                assert (value - expected[name]).abs().max() <= 1e-9, (case, wrap, name)
    whole, of_inputs, of_layers = found["refused"]
    assert "got a whole one; give the Loader share=(rank, ranks)" in whole
    for message in (of_inputs, of_layers):
        assert "must be torch.float32, got torch.bfloat16. Leave out FSDP's MixedPrecisionPolicy" in message


@pytest.mark.weekly  # the test above has both ways
@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
def test_the_example_writes_a_model_that_predicts(wrap, small_folder_graph, tmp_path):
    script = Path(__file__).parents[2] / "examples" / "distributed_model.py"
    run_loop(script, wrap, small_folder_graph.folder, tmp_path / "model.pt")
    graph = Graph.load(small_folder_graph.folder)
    task = Task(model="gin", fanouts=FANOUTS, hidden_channels=16)
    model = BatchModel(task, graph.num_features, graph.num_classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = Loader(graph, FANOUTS, graph.train_ids, batch_size=150, shuffle=True)
    for _ in range(2):
        for batch in loader.minibatches():
            optimizer.zero_grad()
            functional.cross_entropy(model(batch), batch.y).backward()
            optimizer.step()
    widths = graph.num_features, graph.num_classes
    expected = SavedModel(task, graph.target, *widths, model.model.state_dict())
    assert torch.allclose(predict(tmp_path / "model.pt", graph), predict(expected, graph), atol=1e-4)


@pytest.mark.parametrize("name", ["sage", "gcn", "gat"])
def test_gradients_of_shares_add_up_to_those_of_the_whole(name, small_graph):
    model = model_of(name, small_graph)

    def gradients(*shares: tuple[int, int] | None) -> list[torch.Tensor]:
        model.zero_grad()
        for share in shares:
            for batch in loader_of(small_graph, share).minibatches():
                (functional.cross_entropy(model(batch), batch.y) * batch.seed_share).backward()
        return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    whole, shared = gradients(None), gradients((0, 3), (1, 3), (2, 3))
    assert len(whole) == len(shared) == len(list(model.parameters()))
    for one, other in zip(whole, shared, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12)


def test_a_share_alone_has_no_statistics_of_the_whole(small_graph):
    batch = next(loader_of(small_graph, (0, 2)).minibatches())
    with pytest.raises(UsageError, match="a model without a process group"):
        model_of("gin", small_graph)(batch)
    assert model_of("gin", small_graph).eval()(batch).shape == (50, small_graph.num_classes)
    assert model_of("gin", small_graph, norm="layer")(batch).shape == (50, small_graph.num_classes)


@pytest.mark.parametrize(("name", "features"), [("sage", "sparse"), ("transformer", "sparse"), ("gin", "dense")])
def test_fsdp_frees_weights_that_kernels_have_read(name, features, request, tmp_path):
    from torch import distributed
    from torch.distributed.fsdp import fully_shard

    graph: Graph = request.getfixturevalue("sparse_graph" if features == "sparse" else "small_graph")
    task = Task(model=name, hidden_channels=16, fanouts=FANOUTS)
    plain, model = (BatchModel(task, graph.num_features, graph.num_classes) for _ in range(2))
    batch = next(Loader(graph, FANOUTS, range(60), batch_size=60).minibatches())
    expected = plain(batch)
    expected.sum().backward()
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        for layer in model.model.convs:
            fully_shard(layer, reshard_after_forward=True)
        fully_shard(model)
        found = model(batch)
        found.sum().backward()
        assert torch.equal(found, expected)
        for one, other in zip(model.parameters(), plain.parameters(), strict=True):
            assert torch.equal(one.grad.full_tensor(), other.grad)
    finally:
        distributed.destroy_process_group()


def test_what_it_takes_is_checked(small_graph):
    with pytest.raises(ConfigError, match="your own model is already a module"):
        BatchModel(Task(model="tests.own_models:make"), 3, 2)
    model = model_of("sage", small_graph)
    data = small_graph.to_pyg()
    batch = next(Loader(data, FANOUTS, range(9), batch_size=9).minibatches())
    assert model(batch).shape == (9, small_graph.num_classes)
    data.x = data.x.double()  # an attribute, which a3gnn's own mini-batches don't have
    without = next(Loader(data, FANOUTS, range(9), batch_size=9).minibatches())
    with pytest.raises(UsageError, match="must have the model's 32 features, got 0"):
        model(without)


def test_what_it_learns_is_a_model_that_predicts(small_graph, tmp_path):
    task = Task(model="gin", hidden_channels=16, fanouts=FANOUTS)
    model = BatchModel(task, small_graph.num_features, small_graph.num_classes)
    for batch in loader_of(small_graph).minibatches():
        functional.cross_entropy(model(batch), batch.y).backward()
    assert int(model.model.state_dict()["convs.0.nn.norms.0.module.num_batches_tracked"]) == 4
    widths = small_graph.num_features, small_graph.num_classes
    SavedModel(task, small_graph.target, *widths, model.model.state_dict()).write(tmp_path / "model.pt")
    nodes = list(range(7))
    loader = Loader(small_graph, [-1, -1], nodes, batch_size=7)
    expected = model.eval()(next(loader.minibatches())).softmax(dim=1)
    assert torch.allclose(predict(tmp_path / "model.pt", small_graph, nodes=nodes), expected, atol=1e-5)
