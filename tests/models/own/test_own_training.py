"""Models of the user's through the trainer, `train` and the command line."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError, ModelError
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer, TrainerOptions
from tests.commands import a3gnn

CONFIG = TrainConfig(batch_size=128)
SPEC = "synthetic:nodes=300,degree=8,classes=4,features=16"


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def majority(graph: Graph) -> float:
    counts = np.bincount(graph.labels[graph.train_ids])
    return float((graph.labels[graph.test_ids] == counts.argmax()).mean())


@pytest.mark.parametrize(
    "changes",
    [{}, {"compute_dtype": "bfloat16"}, {"feature_dtype": "float16", "cache_bytes": 20_000}, {"num_partitions": 2}],
    ids=str,
)
@pytest.mark.parametrize("name", ["Edges", "Layers", "Own"])
def test_models_learn(name, changes, own_task, small_folder_graph, tmp_path) -> None:
    if name == "Layers" and "compute_dtype" in changes:
        pytest.skip("torch has no products of CSR matrices in bfloat16 on the CPU")
    task = own_task(small_folder_graph, name, learning_rate=0.05 if name == "Own" else 0.01)
    with Trainer(small_folder_graph, CONFIG.replace(**changes), task, TrainerOptions(scratch=tmp_path)) as trainer:
        losses = [sum(step.loss for step in trainer.steps(epoch)) for epoch in range(10)]
        trainer.check_sources()
        assert losses[-1] < losses[0]
        assert min(trainer.validate(), trainer.test()) > majority(small_folder_graph) + 0.1
        assert trainer.evaluation == "the whole graph at once"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["Layers", "Edges"])
def test_full_input_aggregation_learns(name, dtype, own_task, package, small_folder_graph, tmp_path) -> None:
    if name == "Layers" and dtype == "bfloat16":
        pytest.skip("torch has no products of CSR matrices in bfloat16 on the CPU")
    full = CONFIG.replace(input_aggregation="full", compute_dtype=dtype)
    task = own_task(small_folder_graph, name)
    with Trainer(small_folder_graph, full, task, TrainerOptions(scratch=tmp_path)) as trainer:
        for epoch in range(10):
            list(trainer.steps(epoch))
        assert trainer.validate() > majority(small_folder_graph) + 0.1
    other = package.add_class("    def forward(self, x, edge_index): return super().forward(x * 1, edge_index)")
    with pytest.raises(
        ConfigError, match=r"input_aggregation full needs a model whose input layer reads .* use sampled"
    ):
        Trainer(small_folder_graph, full, own_task(small_folder_graph, other), TrainerOptions(scratch=tmp_path))


@pytest.mark.parametrize("name", ["Edges", "Layers"])
def test_modes_and_interruptions_change_nothing(name, own_task, small_folder_graph, tmp_path) -> None:
    task = own_task(small_folder_graph, name)
    states = []
    for changes, cut in (({}, None), ({"parallel_mode": "mode1", "num_workers": 2, "feature_tier": "disk"}, 2)):
        with Trainer(small_folder_graph, CONFIG.replace(**changes), task, TrainerOptions(scratch=tmp_path)) as trainer:
            list(islice(trainer.steps(0), cut))
            if cut is not None:
                trainer.validate()
                torch.rand(3)  # the caller's draws must not matter
                list(trainer.steps(0, start=cut))
            states.append(weights(trainer))
            trainer.restart()
            list(trainer.steps(0))
            states.append(weights(trainer))
    torch.manual_seed(11)
    assert all(torch.equal(states[0][name], other[name]) for other in states for name in states[0])


def test_its_own_optimizer_loss_and_schedule_are_used(own_task, small_folder_graph, tmp_path) -> None:
    task = own_task(small_folder_graph, "Own")
    config = CONFIG.replace(learning_rate_scale=0.5)
    with Trainer(small_folder_graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
        assert isinstance(trainer.optimizer, torch.optim.SGD)
        rates = []
        for epoch in range(3):
            for _ in trainer.steps(epoch):
                pass
            rates.append([group["lr"] for group in trainer.optimizer.param_groups])
        assert rates == [pytest.approx([0.005 * 0.5**epoch, 0.015 * 0.5**epoch]) for epoch in range(3)]
        batch = next(iter(trainer._pipeline.epoch(0)))
        smoothed = trainer._learner.loss(batch)
        with Trainer(
            small_folder_graph, config, own_task(small_folder_graph), TrainerOptions(scratch=tmp_path)
        ) as plain:
            plain.model.load_state_dict(trainer.model.state_dict())
            assert plain._learner.loss(batch) != smoothed


def test_the_tasks_schedule_is_applied_where_the_model_has_none(own_task, small_folder_graph, tmp_path) -> None:
    falling = {"lr_schedule": "linear", "lr_epochs": 2}
    task = own_task(small_folder_graph, **falling)
    with Trainer(small_folder_graph, CONFIG, task, TrainerOptions(scratch=tmp_path)) as trainer:
        rates = []
        for _ in trainer.steps(0):
            rates += [group["lr"] for group in trainer.optimizer.param_groups]
        count = trainer.batches_per_epoch
    assert rates == pytest.approx([task.learning_rate * (1 - batch / (2 * count)) for batch in range(count)])
    task = own_task(small_folder_graph, "Own", **falling)
    with pytest.raises(ModelError, match="lr_schedule must be constant for a model with its own schedule"):
        Trainer(small_folder_graph, CONFIG, task, TrainerOptions(scratch=tmp_path))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    def loss(self, outputs, labels): return outputs", r"loss\(outputs, labels\) must return a scalar"),
        (
            "    def schedule(self, batch, per_epoch): return -1.0",
            r"must return a factor >= 0, got -1.0 for \(0, \d+\)",
        ),
        ("    def optimizer(self, learning_rate): return 5", r"must return a torch.optim.Optimizer, got 5"),
    ],
)
def test_a_contract_that_is_broken_in_training_is_named(body, message, package, own_task, tiny_graph, tmp_path) -> None:
    task = own_task(tiny_graph, package.add_class(body))
    with (
        pytest.raises(ModelError, match=message),
        Trainer(tiny_graph, CONFIG, task, TrainerOptions(scratch=tmp_path)) as trainer,
    ):
        list(trainer.steps(0))


def test_a_file_that_changed_meanwhile_ends_the_trial(package, own_task, tiny_graph, tmp_path) -> None:
    task = own_task(tiny_graph)
    package.write("widths", "HIDDEN = 32  # changed\n")
    with pytest.raises(ModelError, match="must not change during a run, but its files, packages or parameters"):
        Trainer(tiny_graph, CONFIG, task, TrainerOptions(scratch=tmp_path))


def test_two_epochs_and_two_more_equal_four(package, small_folder_graph, tmp_path) -> None:
    lines: list[str] = []
    task = Task(fanouts=(10, 5), learning_rate=0.01)
    model = package.factory("Own")
    found = []
    for out, stops in (("whole", (4,)), ("halves", (2, 4))):
        for epochs in stops:
            result = train(
                CONFIG,
                small_folder_graph,
                model=model,
                task=task,
                epochs=epochs,
                out=tmp_path / out,
                resume=epochs != stops[0],
                notify=lines.append,
            )
        found.append(torch.load(tmp_path / out / "checkpoint.pt", weights_only=True))
        fields = json.loads((tmp_path / out / "result.json").read_text())
        assert fields["evaluation"] == result.evaluation == "the whole graph at once"
        assert fields["task"]["model"] == model
        assert result.task.own is not None
    assert all(torch.equal(found[0]["model"][name], found[1]["model"][name]) for name in found[0]["model"])
    assert found[0]["optimizer"]["param_groups"] == found[1]["optimizer"]["param_groups"]
    assert "accuracy is computed from the whole graph at once" in lines
    package.write("widths", "HIDDEN = 32  # another version\n")
    with pytest.raises(
        ConfigError, match=r"belongs to another run: the model's sources was '\w+' and is '\w+'; use the"
    ):
        train(CONFIG, small_folder_graph, model=model, task=task, epochs=5, out=tmp_path / "whole", resume=True)


def test_a_limit_bounds_evaluation_and_the_result_says_how_it_was_done(package, small_folder_graph, tmp_path) -> None:
    task = Task(fanouts=(3, 3))
    factory = package.factory("Layers")
    with Trainer(
        small_folder_graph, CONFIG, train(
            CONFIG, small_folder_graph, model=factory, task=task, epochs=1, out=tmp_path / "run"
        ).task, TrainerOptions(scratch=tmp_path, evaluation_bytes=1000),
    ) as trainer:  # fmt: skip
        assert trainer.evaluation.startswith("a fixed sample of 3, 3 in-neighbors per node, because")
        assert 0 <= trainer.validate() <= 1


def test_the_command_line_trains_it_from_the_folder_that_holds_it(package, tmp_path) -> None:
    """It is begun in this process, which has torch imported, and gone on with in one of its own, from the folder."""
    out, words = tmp_path / "run", "accuracy is computed from the whole graph at once"
    command = ["train", "--model", package.factory("make_layers"), "--dataset", SPEC, "--fanouts", "5,5", "--out", out]
    begun = a3gnn(*command, "--epochs", 1)
    assert begun.returncode == 0, begun.stderr
    assert words in " ".join(begun.stdout.split())
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if str(package.folder.parent) != p)}
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "a3gnn", *map(str, command), "--epochs", "2", "--resume"],
        capture_output=True,
        text=True,
        cwd=package.folder.parent,
        env=environment,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert words in " ".join(ended.stdout.split())
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 2


_NORMED = """
    def __init__(self, in_channels, out_channels):
        super().__init__(in_channels, out_channels)
        from torch_geometric.nn import BatchNorm
        self.norm = {norm}

    def forward(self, x, adjs):
        x = self.convs[0]((x, x[: adjs[0].size(0)]), adjs[0]).relu()
        return self.norm(self.convs[1]((x, x[: adjs[1].size(0)]), adjs[1]))
"""


@pytest.mark.parametrize("norm", ["torch.nn.BatchNorm1d(out_channels)", "BatchNorm(out_channels)"])
def test_a_last_mini_batch_of_one_row_is_normalized_by_running_statistics(
    norm, own_task, package, small_folder_graph, tmp_path
) -> None:
    graph = dataclasses.replace(small_folder_graph, train_ids=small_folder_graph.train_ids[:65])
    task = own_task(graph, package.add_class(_NORMED.format(norm=norm)))
    with Trainer(graph, CONFIG.replace(batch_size=64), task, TrainerOptions(scratch=tmp_path)) as trainer:
        seen = []
        for epoch in range(2):
            for step in trainer.steps(epoch):
                state = weights(trainer)
                tracked = {name: state[name] for name in state if "running" in name or "tracked" in name}
                seen.append((step.loss, tracked, state["convs.1.lin_l.weight"]))
        assert len(seen) == 4
        assert all(np.isfinite(loss) for loss, *_ in seen)
        for (_, first, before), (_, last, after) in (seen[:2], seen[2:]):
            assert all(torch.equal(first[name], last[name]) for name in first)
            assert not torch.equal(before, after)  # it learns from that seed all the same
        assert not all(torch.equal(seen[0][1][name], seen[2][1][name]) for name in seen[0][1])
        assert all(module.training for module in trainer.model.modules())


@pytest.mark.parametrize(
    ("norm", "seeds", "batch_size", "got"),
    [
        ("torch.nn.BatchNorm1d(out_channels, track_running_stats=False)", 65, 64, r"batch_size 64, 65 train nodes"),
        ("torch.nn.BatchNorm1d(out_channels)", 8, 1, r"batch_size 1, 8 train nodes"),
        ("BatchNorm(out_channels)", 1, 64, r"batch_size 64, 1 train node"),
    ],
)
def test_a_row_that_no_statistics_normalize_is_an_error(
    norm, seeds, batch_size, got, own_task, package, small_folder_graph, tmp_path
) -> None:
    graph = dataclasses.replace(small_folder_graph, train_ids=small_folder_graph.train_ids[:seeds])
    task = own_task(graph, package.add_class(_NORMED.format(norm=norm)))
    with (
        Trainer(graph, CONFIG.replace(batch_size=batch_size), task, TrainerOptions(scratch=tmp_path)) as trainer,
        pytest.raises(ModelError, match=rf"a batch norm needs at least 2 rows.* of 1 seed \({got}\)\. Choose"),
    ):
        list(trainer.steps(0))
