from __future__ import annotations

import dataclasses
from collections import deque
from itertools import chain, islice

import numpy as np
import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, MemoryLimitError
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.models.batch_blocks import blocks_of
from a3gnn.models.model import build_model
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer, TrainerOptions

MODELS = ["sage", "gcn", "gin", "gat", "gatv2", "transformer"]
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")],
    ),
]


def majority(graph: Graph) -> float:
    counts = np.bincount(graph.labels[graph.train_ids])
    return float((graph.labels[graph.test_ids] == counts.argmax()).mean())


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", MODELS)
def test_models_learn(model, device, small_folder_graph, tmp_path):
    task = Task(model=model, hidden_channels=32, fanouts=(10, 5), learning_rate=0.01, heads=2)
    with Trainer(
        small_folder_graph, TrainConfig(batch_size=128), task, TrainerOptions(scratch=tmp_path), device=device
    ) as trainer:
        losses = [np.mean([step.loss for step in trainer.steps(epoch)]) for epoch in range(12)]
        accuracies = trainer.validate(), trainer.test()
    assert losses[-1] < losses[0]
    assert min(accuracies) > majority(small_folder_graph) + 0.15


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_sparse_features_learn(model, sparse_graph, tmp_path):
    task = Task(model=model, hidden_channels=32, fanouts=(10, 5), learning_rate=0.01)
    with Trainer(sparse_graph, TrainConfig(batch_size=32), task, TrainerOptions(scratch=tmp_path)) as trainer:
        losses = [np.mean([step.loss for step in trainer.steps(epoch)]) for epoch in range(10)]
        assert trainer.test() > majority(sparse_graph)
    assert losses[-1] < losses[0] * 0.8


@pytest.mark.parametrize("partitioner", [None, "random", "blocks"])
@pytest.mark.parametrize("model", MODELS)
def test_a_mini_batch_may_hold_one_seed_that_has_no_neighbor(model, partitioner, tiny_graph, tmp_path):
    lonely = np.repeat(np.arange(tiny_graph.num_nodes), np.diff(tiny_graph.indptr)) != tiny_graph.train_ids[0]
    edges = np.concatenate([[0], np.cumsum(lonely)])[tiny_graph.indptr]
    graph = dataclasses.replace(
        tiny_graph, indptr=edges, indices=tiny_graph.indices[lonely], train_ids=tiny_graph.train_ids[:5]
    )
    task = Task(model=model, hidden_channels=8, fanouts=(3, 2), heads=2)
    # Two mini-batches of four seeds and one, or eight parts of which some hold one seed and some none.
    config = (
        TrainConfig(batch_size=4) if partitioner is None else TrainConfig(num_partitions=8, partitioner=partitioner)
    )
    with Trainer(graph.on_disk(tmp_path), config, task, TrainerOptions(scratch=tmp_path)) as trainer:
        sizes = [step.seeds for epoch in range(4) for step in trainer.steps(epoch)]
        assert min(sizes) == 1
        assert sum(sizes) == 4 * 5
        trainer.validate()


def test_steps_say_what_was_done(small_folder_graph, task, tmp_path):
    config = TrainConfig(batch_size=100, cache_bytes=20_000)
    with Trainer(small_folder_graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
        steps = list(trainer.steps(0))
        assert trainer.batches_per_epoch == len(steps) == -(-len(small_folder_graph.train_ids) // 100)
        assert 0 < trainer.cache_bytes <= 20_000
    assert sum(step.seeds for step in steps) == len(small_folder_graph.train_ids)
    assert [step.index for step in steps] == list(range(len(steps)))
    assert all(0 < step.hits < step.input_nodes and step.sampled_edges > step.seeds for step in steps)
    assert all(min(step.seconds.sample, step.seconds.gather, step.seconds.train) > 0 for step in steps)


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(batch_size=128, parallel_mode="mode1", num_workers=2),
        TrainConfig(batch_size=128, parallel_mode="mode2", num_workers=3, feature_tier="disk"),
    ],
    ids=["mode1", "mode2_disk"],
)
def test_modes_and_tiers_train_bit_identically(config, small_folder_graph, task, tmp_path):
    states = []
    for one in (TrainConfig(batch_size=128), config):
        with Trainer(small_folder_graph, one, task, TrainerOptions(scratch=tmp_path)) as trainer:
            for epoch in range(2):
                list(trainer.steps(epoch))
            states.append(weights(trainer))
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_leaving_an_epoch_and_going_on_changes_nothing(small_folder_graph, task, tmp_path):
    states = []
    for cut in (None, 2):
        torch.manual_seed(0 if cut is None else 1)  # the caller's generator must not matter
        with Trainer(
            small_folder_graph, TrainConfig(batch_size=128), task, TrainerOptions(scratch=tmp_path)
        ) as trainer:
            list(islice(trainer.steps(0), cut))
            if cut is not None:
                trainer.validate()
                list(trainer.steps(0, start=cut))
            states.append(weights(trainer))
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_the_callers_generator_is_left_alone(small_folder_graph, task, tmp_path):
    with Trainer(small_folder_graph, TrainConfig(batch_size=128), task, TrainerOptions(scratch=tmp_path)) as trainer:
        state = torch.get_rng_state()
        next(trainer.steps(0))
    assert torch.equal(torch.get_rng_state(), state)


def test_gcn_degrees_are_those_of_the_sampled_graph(small_folder_graph):
    with Pipeline(small_folder_graph, TrainConfig(batch_size=64), (4, 3), PipelineOptions(seed=0)) as pipeline:
        batch = next(iter(pipeline.epoch(0)))
    blocks = blocks_of(batch, with_degrees=True)
    targets = torch.arange(len(batch.indptr) - 1).repeat_interleave(batch.indptr.diff())
    kept = targets[batch.indices != targets]
    expected = torch.bincount(kept, minlength=batch.subgraph.num_nodes).float()
    assert torch.equal(blocks[0].in_degrees, expected)
    assert torch.equal(blocks[1].in_degrees, expected[: blocks[1].num_src])


@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_aggregated_features_give_the_same_logits_and_gradients(model, small_folder_graph):
    task = Task(model=model, hidden_channels=16, fanouts=(6, 4, 3))
    net = build_model(task, small_folder_graph.num_features, small_folder_graph.num_classes)
    outs, grads = [], []
    for aggregator in (None, net.aggregator):
        with Pipeline(
            small_folder_graph, TrainConfig(batch_size=64), task.fanouts, PipelineOptions(seed=0, aggregator=aggregator)
        ) as pipeline:
            batch = next(iter(pipeline.epoch(0)))
            assert batch.aggregator == aggregator
            blocks = blocks_of(batch, with_degrees=net.needs_degrees)
            outs.append(net(batch.x, blocks, aggregated=aggregator is not None, seed=3))
            grads.append(torch.autograd.grad(outs[-1].square().mean(), list(net.parameters())))
    torch.testing.assert_close(outs[0], outs[1], rtol=1e-4, atol=1e-5)
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_a_passed_memory_limit_stops_after_a_whole_mini_batch(small_folder_graph, task, tmp_path):
    config = TrainConfig(batch_size=128)
    with Trainer(
        small_folder_graph, config, task, TrainerOptions(scratch=tmp_path, host_memory_limit=2**20)
    ) as trainer:
        steps = trainer.steps(0)
        assert next(steps).index == 0
        with pytest.raises(MemoryLimitError, match=r"must keep to 1.00 MiB .* it took .* smaller batch_size"):
            next(steps)
        assert trainer.memory.peak_bytes > 2**20


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("norm", ["none", "batch", "layer"])
@pytest.mark.parametrize("model", MODELS)
def test_a_loss_that_is_not_finite_is_an_error(model, norm, compute_dtype, small_folder_graph, tmp_path):
    task = Task(model=model, hidden_channels=8, norm=norm, learning_rate=1e38)
    config = TrainConfig(batch_size=32, compute_dtype=compute_dtype)
    with (
        Trainer(small_folder_graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer,
        pytest.raises(A3GNNError, match=r"loss must be finite.*learning_rate"),
    ):
        deque(chain.from_iterable(map(trainer.steps, range(20))), maxlen=0)


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("model", MODELS)
def test_features_that_overflow_are_an_error_of_the_loss(model, compute_dtype, small_graph, tmp_path):
    features = DenseFeatures(small_graph.features.array * np.float32(5e37))
    graph = dataclasses.replace(small_graph, features=features).save(tmp_path / "graph")
    config = TrainConfig(batch_size=64, compute_dtype=compute_dtype)
    with (
        Trainer(graph, config, Task(model=model, hidden_channels=8), TrainerOptions(scratch=tmp_path)) as trainer,
        pytest.raises(A3GNNError, match="loss must be finite"),
    ):
        list(trainer.steps(0))


@pytest.mark.parametrize("model", MODELS)
def test_an_evaluation_of_weights_that_overflow_is_an_error(model, small_folder_graph, tmp_path):
    with Trainer(
        small_folder_graph,
        TrainConfig(),
        Task(model=model, hidden_channels=8),
        TrainerOptions(scratch=tmp_path),
    ) as trainer:
        with torch.no_grad():
            for weight in trainer.model.parameters():
                weight.mul_(1e38)
        for evaluate in (trainer.validate, trainer.test):
            with pytest.raises(A3GNNError, match=r"outputs must be numbers, got NaN for .* nodes.*learning_rate"):
                evaluate()
