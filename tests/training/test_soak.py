"""50 epochs under each mode, stopped at random and resumed: the same run as one that was left alone."""

import json
import signal

import numpy as np
import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.config import PARALLEL_MODES, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer

EPOCHS = 50
TASK = Task(model="sage", hidden_channels=16, fanouts=(5, 4), seed=3)


def knobs(graph: Graph, mode: str) -> TrainConfig:
    cache_bytes = graph.features.nbytes // 3 + 4 * graph.num_nodes
    return TrainConfig(batch_size=64, bias_rate=4.0, cache_bytes=cache_bytes, parallel_mode=mode, num_workers=3)


@pytest.fixture(scope="module")
def undisturbed(small_folder_graph: Graph, tmp_path_factory) -> dict[str, torch.Tensor]:
    folder = tmp_path_factory.mktemp("soak") / "run"
    train(
        knobs(small_folder_graph, "sequential"), small_folder_graph, task=TASK, epochs=EPOCHS, patience=None, out=folder
    )
    return torch.load(folder / "model.pt", weights_only=True)


# The mode with most threads; the others are weekly, and tests of checkpoints stop them at one place each.
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=[] if mode == "mode2" else pytest.mark.weekly) for mode in PARALLEL_MODES]
)
def test_random_stops_change_nothing(mode, undisturbed, small_folder_graph, tmp_path, monkeypatch) -> None:
    draw = np.random.default_rng(len(mode))
    whole_step, left = Trainer._train, [0]

    def step(self, batch):
        done = whole_step(self, batch)
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(Trainer, "_train", step)
    config, out, stops, resume = knobs(small_folder_graph, mode), tmp_path / "run", 0, False
    while True:
        left[0] = int(draw.integers(1, 150))
        try:
            train(config, small_folder_graph, task=TASK, epochs=EPOCHS, patience=None, out=out, resume=resume)
            break
        except KeyboardInterrupt:
            stops, resume = stops + 1, True
    assert stops > 3
    assert json.loads((out / "result.json").read_text())["epochs"] == EPOCHS
    weights = torch.load(out / "model.pt", weights_only=True)
    assert all(torch.equal(weights[name], value) for name, value in undisturbed.items())
