"""Knobs that change the work: with any values of them, modes, workers, tiers and interruptions change no bit."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.config import COMPUTE_DTYPES, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.checkpoint import identity, restore_checkpoint, save_checkpoint
from a3gnn.training.progress import Progress
from a3gnn.training.trainer import Trainer, TrainerOptions

TASK = Task(hidden_channels=8, fanouts=(6, 4), learning_rate=0.01, heads=2)
EPOCHS = 2

#: Values of the knobs that change what a step computes.
WORK = {
    "batch_size": st.sampled_from((20, 64, 4096)),
    "seed_fanout": st.sampled_from((None, 1, 3, 9)),
    "deep_fanout": st.sampled_from((None, 2, 5)),
    "compute_dtype": st.sampled_from(COMPUTE_DTYPES),
    "learning_rate_scale": st.sampled_from((0.5, 1.0, 4.0)),
}
#: Ways to run it that may change no bit.
WAYS = st.builds(
    dict,
    parallel_mode=st.sampled_from(("sequential", "mode1", "mode2")),
    num_workers=st.integers(1, 3),
    feature_tier=st.sampled_from(("ram", "disk")),
    cache_bytes=st.sampled_from((0, 5000)),
)


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def trained(graph: Graph, config: TrainConfig, task: Task) -> dict[str, torch.Tensor]:
    """Returns the weights after two epochs in one go."""
    with (
        TemporaryDirectory() as scratch,
        Trainer(graph, config, task, TrainerOptions(scratch=scratch)) as trainer,
    ):
        for epoch in range(EPOCHS):
            list(trainer.steps(epoch))
        return weights(trainer)


def resumed(graph: Graph, config: TrainConfig, task: Task, cut: int) -> dict[str, torch.Tensor]:
    """Returns the weights after two epochs, left off after `cut` mini-batches and gone on with by another trainer."""
    known = identity(graph, config, task)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        with Trainer(graph, config, task, TrainerOptions(scratch=folder)) as trainer:
            epoch, start = divmod(cut, trainer.batches_per_epoch)
            for before in range(epoch):
                list(trainer.steps(before))
            list(islice(trainer.steps(epoch), start))
            save_checkpoint(path, trainer, Progress(), known)
        with Trainer(graph, config, task, TrainerOptions(scratch=folder)) as trainer:
            restore_checkpoint(path, trainer, known)
            for rest in range(epoch, EPOCHS):
                list(trainer.steps(rest, start=start if rest == epoch else 0))
            return weights(trainer)


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@settings(max_examples=15, deadline=None)  # the first example may compile kernels
@given(
    work=st.fixed_dictionaries(WORK),
    way=WAYS,
    model=st.sampled_from(("sage", "gcn", "gin", "gat")),
    cut=st.floats(0, 1, exclude_max=True),
)
def test_ways_and_interruptions_change_no_bit(
    work: dict[str, Any], way: dict[str, Any], model: Any, cut: float, tiny_folder_graph: Graph
) -> None:
    graph, task, config = tiny_folder_graph, Task(**TASK.to_dict() | {"model": model}), TrainConfig(**work)
    whole = trained(graph, config, task)
    other = config.replace(**way)
    assert other.learning_key() == config.learning_key()
    batches = EPOCHS * -(-len(graph.train_ids) // config.batch_size)
    assert_equal(resumed(graph, other, task, int(cut * batches)), whole)


@pytest.mark.parametrize("model", ["sage", "gat"])
def test_a_configurations_fanouts_train_as_a_task_with_them(model: Any, tiny_folder_graph: Graph) -> None:
    task = Task(**TASK.to_dict() | {"model": model})
    config = TrainConfig(batch_size=64, seed_fanout=2, deep_fanout=3)
    alike = trained(
        tiny_folder_graph,
        config.replace(seed_fanout=None, deep_fanout=None),
        Task(**task.to_dict() | {"fanouts": (2, 3)}),
    )
    assert_equal(trained(tiny_folder_graph, config, task), alike)
    unlike = trained(tiny_folder_graph, config.replace(seed_fanout=None), task)
    assert not all(torch.equal(alike[name], unlike[name]) for name in alike)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_batch_sizes_that_hold_every_train_seed_train_alike(scale: float, tiny_folder_graph: Graph) -> None:
    config = TrainConfig(batch_size=len(tiny_folder_graph.train_ids), learning_rate_scale=scale)
    whole = trained(tiny_folder_graph, config, TASK)
    assert_equal(trained(tiny_folder_graph, config.replace(batch_size=16_384), TASK), whole)
