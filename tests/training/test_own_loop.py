"""A tuned configuration in a loop of one's own: its schedule, number format and table are the trainer's."""

from __future__ import annotations

import dataclasses
import pickle
import re
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GAT, GCN, GIN, GCNConv, GraphSAGE

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader
from a3gnn.models.adam import Adam
from a3gnn.models.own.factory import Factory
from a3gnn.task import Task
from a3gnn.training.describe import described
from a3gnn.training.learner import LearningRate
from a3gnn.training.pyg_modules import pyg_module, to_pyg_state_dict
from a3gnn.training.trainer import Trainer, TrainerOptions
from a3gnn.training.tuned import TunedConfig
from tests.own_models import Package

#: Other tests apply to optimizers and models of any kind.
pytestmark = pytest.mark.filterwarnings("ignore:tuned for:UserWarning")
#: Makes a tuned configuration from a configuration and a task.
Make = Callable[..., TunedConfig]


@pytest.fixture
def tuned_of(write_tuned: Callable[..., Path]) -> Make:
    """Returns a maker of tuned configurations for the small graph."""
    plain = TunedConfig.read(write_tuned())

    def make(config: TrainConfig, task: Task) -> TunedConfig:
        return dataclasses.replace(plain, config=config, setting=dataclasses.replace(plain.setting, task=task))

    return make


_SAGE = Task(hidden_channels=8, fanouts=(4, 3), learning_rate=0.01)


@pytest.mark.parametrize(
    ("task", "make", "rate", "message"),
    [
        (_SAGE, lambda: GraphSAGE(16, 8, 2, 4), 0.01, None),
        (
            _SAGE,
            lambda: GraphSAGE(16, 8, 2, 4),
            0.5,
            "tuned for learning rate 0.01, applied to 0.5: .*factor x4 may not hold",
        ),
        (
            _SAGE,
            lambda: GraphSAGE(16, 12, 2, 4),
            0.01,
            "GraphSAGE of 2 layers of 8 columns, applied to GraphSAGE of 2 layers of 12",
        ),
        (_SAGE, lambda: GraphSAGE(16, 8, 3, 4), 0.01, "2 layers of 8 columns, applied to GraphSAGE of 3 layers of 8"),
        (
            _SAGE,
            lambda: GAT(16, 8, 2, 4, heads=2),
            0.5,
            "columns at learning rate 0.01, applied to GAT of 2 layers of 8 columns at 0.5",
        ),
        (_SAGE, lambda: nn.Linear(16, 4), 0.01, "applied to Linear: .* give tune\\(\\) model= and task="),
        (dataclasses.replace(_SAGE, model="gcn"), lambda: GCN(16, 8, 2, 4), 0.01, None),
        (dataclasses.replace(_SAGE, model="gat", heads=2), lambda: GAT(16, 8, 2, 4, heads=2), 0.01, None),
        (dataclasses.replace(_SAGE, model="gatv2", heads=2), lambda: GAT(16, 8, 2, 4, heads=2, v2=True), 0.01, None),
        (
            dataclasses.replace(_SAGE, model="gat", heads=2),
            lambda: GAT(16, 8, 2, 4, heads=2, v2=True),
            0.01,
            "applied to GATv2",
        ),
        (dataclasses.replace(_SAGE, model="gin"), lambda: GIN(16, 8, 2, 4), 0.01, None),
    ],
)
def test_another_model_or_rate_than_the_tuned_one_is_a_warning(
    task: Task, make: Callable[[], nn.Module], rate: float, message: str | None, tuned_of: Make
) -> None:
    tuned, model = tuned_of(TrainConfig(learning_rate_scale=4.0, batch_size=128), task), make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tuned.apply(model, optimizer_of(model, rate))
        tuned.apply(model, optimizer_of(model, rate))  # accelerated by now
    assert len(caught) == (0 if message is None else 2)
    for one in caught:
        assert re.search(message or "", str(one.message)), str(one.message)
        assert one.filename == __file__


def optimizer_of(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=rate)


@pytest.mark.parametrize("fields", [{}, {"lr_schedule": "cosine", "lr_epochs": 3}], ids=["constant", "cosine"])
@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_the_schedule_has_the_trainers_rates(
    scale: float,
    fields: dict[str, Any],
    tuned_of: Make,
    small_folder_graph: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = TrainConfig(batch_size=128, learning_rate_scale=scale)
    task = Task(hidden_channels=8, fanouts=(4, 3), learning_rate=0.01, **fields)
    expected: list[float] = []
    step = Adam.step

    def record(self: Adam) -> None:
        expected.extend(group["lr"] for group in self.param_groups)
        step(self)

    monkeypatch.setattr(Adam, "step", record)
    with Trainer(small_folder_graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
        for epoch in range(2):
            list(trainer.steps(epoch))
        assert len(expected) == 2 * trainer.batches_per_epoch > 2
    model = GraphSAGE(small_folder_graph.num_features, 8, 2, 4)
    optimizer, found = optimizer_of(model, 0.01), []
    schedule = tuned_of(config, task).apply(model, optimizer)
    for _ in expected:
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert found == pytest.approx(expected, rel=1e-12)


def test_groups_keep_their_proportions_and_the_state_is_saved(tuned_of: Make) -> None:
    config, task = TrainConfig(batch_size=128, learning_rate_scale=2.0), Task(learning_rate=0.01)
    tuned, models = tuned_of(config, task), [nn.Linear(2, 2) for _ in range(2)]
    optimizers = [
        torch.optim.SGD([{"params": [model.weight]}, {"params": [model.bias], "lr": 0.3}], lr=0.1) for model in models
    ]
    first, second = (tuned.apply(*pair) for pair in zip(models, optimizers, strict=True))
    rates = LearningRate.of(task, config, 3)
    for batch in range(30):
        factor = rates.at(batch) / 0.01
        assert [group["lr"] for group in optimizers[0].param_groups] == pytest.approx([0.1 * factor, 0.3 * factor])
        optimizers[0].step()
        first.step()
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    assert second.get_last_lr() == first.get_last_lr() == pytest.approx([0.2, 0.6])


def test_the_models_own_schedule_counts_if_it_was_tuned(tuned_of: Make) -> None:
    class Falling(nn.Linear):
        def schedule(self, batch: int, batches_per_epoch: int) -> float:
            return 1 / (1 + batch // batches_per_epoch)

    def rates_of(task: Task) -> list[float]:
        model = Falling(2, 2)
        optimizer = optimizer_of(model, 0.1)
        schedule = tuned_of(TrainConfig(batch_size=128), task).apply(model, optimizer, batches_per_epoch=2)
        found = []
        for _ in range(5):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        return found

    assert rates_of(Task(model="package.module:make")) == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.1 / 3])
    assert rates_of(Task()) == [0.1] * 5


def test_what_apply_can_not_use_is_refused(tuned_of: Make) -> None:
    tuned, model = tuned_of(TrainConfig(), Task()), nn.Linear(2, 2)
    with pytest.raises(UsageError, match=r"model must be a torch\.nn\.Module, got 3"):
        tuned.apply(3, optimizer_of(model, 0.1))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"optimizer must be a torch\.optim\.Optimizer over .*, got Linear"):
        tuned.apply(model, model)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"batches_per_epoch must be an integer >= 1, got 0; len\(loader\)"):
        tuned.apply(model, optimizer_of(model, 0.1), batches_per_epoch=0)
    parts = tuned_of(TrainConfig(num_partitions=2, learning_rate_scale=2.0), Task())
    with pytest.raises(UsageError, match=r"must be given with num_partitions=2 and .*=2, .*; give len\(loader\)"):
        parts.apply(model, optimizer_of(model, 0.1))
    parts.apply(model, optimizer_of(model, 0.1), batches_per_epoch=7)
    full, wrong = tuned_of(TrainConfig(input_aggregation="full"), Task()), GAT(16, 8, 2, 4)
    with pytest.raises(UsageError, match=r"reads the tuned table of mean, got a model whose layers read none; tune"):
        full.apply(wrong, optimizer_of(wrong, 0.1))
    other = GCNConv(16, 8)
    with pytest.raises(UsageError, match=r"reads the tuned table of mean, got a model whose layers read gcn; tune"):
        full.apply(other, optimizer_of(other, 0.1))


def gradients_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("aggregation", ["sampled", "full"])
@pytest.mark.parametrize("model", ["sage", "gcn", "gin", "gat"])
def test_outputs_and_gradients_are_the_trainers(
    model: str, aggregation: str, layers: int, tuned_of: Make, small_folder_graph: Graph, tmp_path: Path
) -> None:
    if model == "gat" and aggregation == "full":
        pytest.skip("attention reads no table")
    graph, config = small_folder_graph, TrainConfig(batch_size=128, input_aggregation=aggregation)
    task = Task(
        model=model,
        hidden_channels=16,
        fanouts=(4, 3, 2)[:layers],
        dropout=0.0,
        heads=2,
        norm="layer" if model == "gin" else "none",
    )
    tuned, own = tuned_of(config, task), pyg_module(task, graph.num_features, graph.num_classes)
    tuned.apply(own, optimizer_of(own, task.learning_rate))
    loader = Loader(graph, task.fanouts, graph.train_ids, shuffle=True, seed=task.seed, config=tuned)
    with Trainer(graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
        own.load_state_dict(to_pyg_state_dict(trainer.model.state_dict(), task))
        pairs = zip(trainer._pipeline.epoch(0), loader, strict=True)
        for theirs, batch in islice(pairs, 2):
            assert theirs.subgraph.n_id.tolist() == batch.n_id.tolist()
            for module in (trainer.model, own):
                module.zero_grad()
            expected = trainer._learner.loss(theirs)
            found = cross_entropy(own(batch.x, batch.edge_index)[: batch.batch_size], batch.y[: batch.batch_size])
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
            expected.backward()
            found.backward()
            own_gradients = gradients_of(own)
            for name, one in gradients_of(trainer.model).items():
                torch.testing.assert_close(own_gradients[name], one, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("aggregation", ["sampled", "full"])
@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_bfloat16_rounds_the_same_loss(
    model: str, aggregation: str, tuned_of: Make, small_folder_graph: Graph, tmp_path: Path
) -> None:
    graph = small_folder_graph
    task = Task(
        model=model, hidden_channels=16, fanouts=(4, 3), dropout=0.0, norm="layer" if model == "gin" else "none"
    )
    losses, narrow = {}, {}
    for dtype in ("float32", "bfloat16"):
        config = TrainConfig(batch_size=128, input_aggregation=aggregation, compute_dtype=dtype)
        own = pyg_module(task, graph.num_features, graph.num_classes)
        own.load_state_dict(pyg_state(task, graph))
        own.convs[0].register_forward_hook(lambda _, __, out, at=dtype: narrow.update({at: out.dtype}))
        tuned = tuned_of(config, task)
        tuned.apply(own, optimizer_of(own, 0.1))
        batch = next(iter(Loader(graph, task.fanouts, graph.train_ids, config=tuned)))
        out = own(batch.x, batch.edge_index)[: batch.batch_size]
        assert out.dtype is torch.float32
        losses[dtype] = cross_entropy(out, batch.y[: batch.batch_size])
        losses[dtype].backward()
        assert all(one.grad.dtype is torch.float32 for one in own.parameters())
    assert narrow == {"float32": torch.float32, "bfloat16": torch.bfloat16}
    assert losses["bfloat16"] != losses["float32"]
    torch.testing.assert_close(losses["bfloat16"], losses["float32"], rtol=0.03, atol=0)


def pyg_state(task: Task, graph: Graph) -> dict[str, Tensor]:
    torch.manual_seed(3)
    return pyg_module(task, graph.num_features, graph.num_classes).state_dict()


def test_evaluation_stays_float32(tuned_of: Make, small_folder_graph: Graph) -> None:
    graph, task = small_folder_graph, Task(hidden_channels=16, fanouts=(4, 3))
    own, plain = (pyg_module(task, graph.num_features, graph.num_classes).eval() for _ in range(2))
    own.load_state_dict(plain.state_dict())
    tuned_of(TrainConfig(compute_dtype="bfloat16"), task).apply(own, optimizer_of(own, 0.1))
    data = graph.to_pyg()
    with torch.no_grad():
        torch.testing.assert_close(own(data.x, data.edge_index), plain(data.x, data.edge_index), rtol=1e-5, atol=1e-5)


def test_a_loop_learns_with_a_table_and_all_knobs(tuned_of: Make, small_folder_graph: Graph) -> None:
    graph = small_folder_graph
    config = TrainConfig(
        batch_size=128,
        input_aggregation="full",
        compute_dtype="bfloat16",
        learning_rate_scale=2.0,
        cache_bytes=20_000,
        feature_dtype="float16",
        parallel_mode="mode1",
        num_workers=2,
        seed_fanout=3,
    )
    task = Task(hidden_channels=16, fanouts=(4, 3), learning_rate=0.005)
    data, tuned = graph.to_pyg(), tuned_of(config, task)
    torch.manual_seed(0)
    model = GraphSAGE(graph.num_features, 16, 2, graph.num_classes, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    schedule = tuned.apply(model, optimizer)
    loader = Loader(data, [4, 3], data.train_mask, shuffle=True, config=tuned)
    for _ in range(10):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
            schedule.step()
    model.eval()
    right = (model(data.x, data.edge_index).argmax(1) == data.y)[data.test_mask]
    majority = data.y[data.test_mask].bincount().max() / int(data.test_mask.sum())
    assert right.float().mean() > majority + 0.1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("aggregation", ["sampled", "full"])
def test_a_tuned_model_of_ones_own_computes_as_it_was_tuned(
    aggregation: str, dtype: str, package: Package, tuned_of: Make, small_folder_graph: Graph, tmp_path: Path
) -> None:
    graph = small_folder_graph
    body = "    def forward(self, x, edge_index): return self.convs[1](self.convs[0](x, edge_index).relu(), edge_index)"
    task = described(Task(model=package.add_class(body), fanouts=(4, 3)), graph)
    config = TrainConfig(batch_size=128, input_aggregation=aggregation, compute_dtype=dtype)
    with Trainer(graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
        model = Factory.of(task.model).build(graph.num_features, graph.num_classes, task.seed)
        tuned = tuned_of(config, task)
        tuned.apply(model, optimizer_of(model, 0.1))
        loader = Loader(graph, [4, 3], graph.train_ids, shuffle=True, seed=task.seed, config=tuned)
        theirs, batch = next(iter(trainer._pipeline.epoch(0))), next(iter(loader))
        expected = trainer._learner.loss(theirs)
        found = cross_entropy(model.train()(batch.x, batch.edge_index)[: batch.batch_size], batch.y[: batch.batch_size])
        assert torch.equal(found, expected)
        for loss in (expected, found):
            loss.backward()
        gradients = gradients_of(trainer.model)
        assert gradients
        assert all(torch.equal(one, gradients[name]) for name, one in gradients_of(model).items())
