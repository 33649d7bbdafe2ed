"""`train(trainers=...)` and `a3gnn train --trainers`: what is asked for, what is refused, what is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.cli.main import main
from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.trainers.request import Trainers
from a3gnn.task import Task
from a3gnn.threads import pool
from tests.hybrid.trainers.made import threads_of_trainers

TASK = Task(model="gin", hidden_channels=8, fanouts=(4, 3))
CONFIG = TrainConfig(batch_size=32)


def run(graph: Graph, out: Path, config: TrainConfig = CONFIG, **others: Any) -> Any:
    given: dict[str, Any] = {"task": TASK, "epochs": 2, "out": out, "notify": lambda line: None}
    return train(config, graph, **given | others)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_results_and_metrics_say_trainers_and_shares(tiny_folder_graph, tmp_path):
    one = run(tiny_folder_graph, tmp_path / "one")
    two = run(tiny_folder_graph, tmp_path / "two", trainers="cpu:1, sim:u250", trainer_shares=(20, 12))
    assert one.trainers is None
    assert all("trainers" not in line for line in lines(tmp_path / "one"))
    told = json.loads((tmp_path / "two" / "result.json").read_text())["trainers"]
    assert told == two.trainers
    assert (told["names"], told["shares"], told["sampling"]) == (["cpu:1", "sim:u250"], [20, 12], "whole")
    work = told["repeated_work"]
    assert work["sampled_edges"] == 1
    assert 1 < work["rows"] < 2
    for line, alone in zip(lines(tmp_path / "two"), lines(tmp_path / "one"), strict=True):
        assert [trainer["trainer"] for trainer in line["trainers"]] == ["cpu:1", "sim:u250"]
        assert sum(trainer["seeds"] for trainer in line["trainers"]) == len(tiny_folder_graph.train_ids)
        assert all(trainer["train_s"] > 0 for trainer in line["trainers"])
        assert line["loss"] == pytest.approx(alone["loss"], rel=1e-3)
    assert two.test_accuracy == pytest.approx(one.test_accuracy, abs=0.05)
    assert not threads_of_trainers()


def test_shares_of_numpy_are_kept_and_resumed(tiny_folder_graph, tmp_path):
    given: dict[str, Any] = {"trainers": "cpu:1,cpu:1", "trainer_shares": np.array([20, 12])}
    run(tiny_folder_graph, tmp_path / "run", epochs=1, **given)
    found = run(tiny_folder_graph, tmp_path / "run", resume=True, **given)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["trainers"]["shares"] == [20, 12]
    assert found.epochs == 2


def test_independent_sampling_tells_of_the_work_that_it_repeats(tiny_folder_graph, tmp_path):
    given = {"trainers": "cpu:1,cpu:1,cpu:1", "trainer_sampling": "independent"}
    found = run(tiny_folder_graph, tmp_path / "run", **given).trainers
    assert found["sampling"] == "independent"
    assert found["shares"] == [11, 11, 10]
    assert found["repeated_work"]["sampled_edges"] > 1
    assert found["repeated_work"]["trained_edges"] == found["repeated_work"]["sampled_edges"]


def test_shares_are_part_of_what_a_resume_must_keep(tiny_folder_graph, tmp_path):
    two: dict[str, Any] = {"trainers": "cpu:1,cpu:1"}
    run(tiny_folder_graph, tmp_path / "run", **two)
    with pytest.raises(ConfigError, match=r"trainer_shares was \[16, 16\] and is \[20, 12\]"):
        run(tiny_folder_graph, tmp_path / "run", resume=True, epochs=3, trainer_shares=(20, 12), **two)
    with pytest.raises(ConfigError, match=r"trainer_shares was \[16, 16\] and is None"):
        run(tiny_folder_graph, tmp_path / "run", resume=True, epochs=3)
    run(tiny_folder_graph, tmp_path / "run", resume=True, epochs=3, **two)
    run(tiny_folder_graph, tmp_path / "whole", epochs=3, **two)
    found, expected = (torch.load(tmp_path / name / "model.pt", weights_only=True) for name in ("run", "whole"))
    assert all(torch.equal(value, expected[name]) for name, value in found.items())


def test_a_schedule_is_told_and_may_be_another_after_a_resume(tiny_folder_graph, tmp_path):
    two: dict[str, Any] = {"trainers": "cpu:1,cpu:1"}
    found = run(tiny_folder_graph, tmp_path / "run", epochs=1, prefetch=np.array([1, 1, 1]), **two)
    assert found.trainers["prefetch"] == [1, 1, 1]
    assert run(tiny_folder_graph, tmp_path / "run", resume=True, epochs=2, **two).trainers["prefetch"] is None
    run(tiny_folder_graph, tmp_path / "run", resume=True, epochs=3, prefetch=(2, 0, 1), **two)
    run(tiny_folder_graph, tmp_path / "whole", epochs=3, **two)
    weights, expected = (torch.load(tmp_path / name / "model.pt", weights_only=True) for name in ("run", "whole"))
    assert all(torch.equal(value, expected[name]) for name, value in weights.items())


def test_a_target_is_reached_by_trainers_too(tiny_folder_graph, tmp_path):
    found = run(tiny_folder_graph, tmp_path / "run", trainers="cpu:1,cpu:1", target_accuracy=2, until_target=True)
    assert found.seconds_to_accuracy is not None
    assert found.ended == "target"


REFUSED = {
    "too few shares": ({"trainer_shares": (32,)}, "must have one number per trainer and sum to batch_size 32"),
    "another batch": ({"trainer_shares": (20, 13)}, "sum to batch_size 32, got 20,13"),
    "less than none": ({"trainer_shares": (-1, 33)}, "0 leaves a trainer out"),
    "no such sampling": ({"trainer_sampling": "alone"}, "trainer_sampling must be one of independent, whole"),
    "no time": ({"trainer_stall": 0}, "trainer_stall must be positive"),
    "one number": ({"trainer_shares": 32}, "must be integers, one per trainer, got 32"),
    "two depths": ({"prefetch": (1, 1)}, "prefetch must be three numbers, got 1,1; .*; 1,1,1 is two-stage prefetching"),
    "a depth below none": ({"prefetch": (1, -1, 1)}, "prefetch must be an integer >= 0.*0 runs two stages in turn"),
    "depths as text": ({"prefetch": "1,1,1"}, "prefetch must be integers, such as 1, 1, 1, got '1,1,1'"),
    "depths of none": ({"trainers": None, "prefetch": (1, 1, 1)}, "prefetch must be left out without trainers"),
    "no trainers": ({"trainers": None, "trainer_shares": (20, 12)}, "trainer_shares must be left out without trainers"),
    "sampling of none": ({"trainers": None, "trainer_sampling": "independent"}, "trainer_sampling must be left out"),
    "stall of none": ({"trainers": None, "trainer_stall": 5.0}, "trainer_stall must be left out"),
    "no name": ({"trainers": " , "}, "must name at least one"),
    "no such device": ({"trainers": "gpu:0"}, "cpu, cuda, sim"),
    "no threads": ({"trainers": "cpu:0"}, "cpu:THREADS"),
    "no such accelerator": ({"trainers": "sim:u280"}, "did you mean 'u250'"),
    "not text": ({"trainers": 2}, "must be text such as"),
    "resources": ({"config": CONFIG.replace(resources="auto")}, "resources must be free"),
}


@pytest.mark.parametrize(("given", "law"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_had_is_refused(given, law, tiny_folder_graph, tmp_path):
    with pytest.raises(UsageError, match=law):
        run(tiny_folder_graph, tmp_path / "run", **{"trainers": "cpu:1,cpu:1"} | given)


def test_more_threads_than_cores_are_told_of(tiny_folder_graph):
    cores = pool.usable_cores()
    assert not Trainers(f"cpu:{cores}").on(tiny_folder_graph, CONFIG, TASK).lines
    (told,) = Trainers(f"cpu:{cores},cpu:1").on(tiny_folder_graph, CONFIG, TASK).lines
    assert f"on {cores + 1} threads at once" in told


def test_under_torchrun_they_are_refused(tiny_folder_graph):
    asked = Trainers("cpu:1,cpu:1")
    with pytest.raises(UsageError, match="torchrun starts 2 processes"):
        asked.on(tiny_folder_graph, CONFIG, TASK, processes=2)


def test_the_command_takes_what_the_function_takes(write_tuned, small_folder_graph, tmp_path, capsys):
    config = write_tuned(config=TrainConfig(batch_size=256))
    common = ["train", "--config", str(config), "--epochs", "1", "--trainers", "cpu:1,cpu:1"]
    with pytest.raises(SystemExit) as ended:
        main([*common, "--trainer-shares", "156,100", "--prefetch", "1,1,1", "--out", str(tmp_path / "run"), "--quiet"])
    assert not ended.value.code
    out = " ".join(capsys.readouterr().out.split())
    assert "Trainers cpu:1 156, cpu:1 100 seeds, whole sampling, prefetch 1,1,1; " in out
    wrong = (
        ("--trainer-shares", "156", "--trainer-shares must have one number per trainer"),
        ("--trainer-shares", "a,b", "integers separated by commas"),
        ("--prefetch", "1,1", "--prefetch must be three numbers"),
        ("--prefetch", "all", "depths must be three integers separated by commas"),
    )
    for flag, value, law in wrong:
        with pytest.raises(SystemExit) as ended:
            main([*common, flag, value, "--out", str(tmp_path / "no")])
        assert ended.value.code == 2
        assert law in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "stage", ["loading", *(pytest.param(stage, marks=pytest.mark.weekly) for stage in ("propagation", "update"))]
)
def test_a_command_whose_trainer_never_comes_back_ends(stage, write_tuned, tmp_path):
    """A worker's thread, which reads mini-batches here, would hold up the interpreter's end."""
    config = write_tuned(config=TrainConfig(batch_size=256, parallel_mode="mode1", num_workers=1))
    script = f"""
import time
from contextlib import contextmanager
from a3gnn.cli.main import main
from a3gnn.pipeline.watch import Watch

at = Watch.at

@contextmanager
def forever(self, stage, epoch, batch, trainer=None):
    with at(self, stage, epoch, batch, trainer):
        if (stage, epoch) == ({stage!r}, 1):
            time.sleep(3600)
        yield

Watch.at = forever
main(["train", "--config", {str(config)!r}, "--epochs", "2",
      "--out", {str(tmp_path / "run")!r}, "--trainers", "cpu:1,cpu:1", "--trainer-stall", "2s"])
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1, ended.stderr
    assert f"{stage} of trainer" in ended.stderr
    assert "--trainer-stall" in ended.stderr
    assert (tmp_path / "run" / "checkpoint.pt").exists()
