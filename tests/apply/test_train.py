from __future__ import annotations

import dataclasses
import gc
import json
import mmap
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch_geometric.nn.models import GraphSAGE

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, ConfigError, MemoryLimitError, UsageError
from a3gnn.evaluation.neighborhoods import Neighborhoods
from a3gnn.graphs.graph import Graph
from a3gnn.notify import shown, with_details
from a3gnn.process import memory_guard as memory
from a3gnn.storage.claim import claimed
from a3gnn.task import Task
from a3gnn.training.built_in import BuiltIn
from a3gnn.training.checkpoint import save
from a3gnn.training.request import TrainRequest
from a3gnn.training.result import TrainResult
from a3gnn.training.trainer import Trainer, TrainerOptions
from a3gnn.training.tuned import TunedConfig

CONFIG = TrainConfig(batch_size=128)


def lines(folder: Path) -> list[dict]:
    results = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for result in results:  # timings differ from run to run
        for name in ("train_s", "eval_s", "epochs_per_s", "stage_seconds", "nvtps", "mteps"):
            assert result.pop(name)
        del result["kilojoules"]
    return results


def state(folder: Path, name: str = "checkpoint.pt") -> dict:
    return torch.load(folder / name, weights_only=True)


def assert_same_run(one: Path, other: Path) -> None:
    assert lines(one) == lines(other)
    for first, second in ((state(p), state(q)) for p, q in [(one, other)]):
        assert all(torch.equal(first["model"][name], second["model"][name]) for name in first["model"])
        for index, slots in first["optimizer"]["state"].items():
            assert all(torch.equal(slots[name], second["optimizer"]["state"][index][name]) for name in slots)
    best, again = state(one, "model.pt"), state(other, "model.pt")
    assert all(torch.equal(best[name], again[name]) for name in best)


@pytest.fixture
def whole_run(small_folder_graph, task, tmp_path) -> Path:
    train(CONFIG, small_folder_graph, task=task, epochs=4, out=tmp_path / "whole")
    return tmp_path / "whole"


def test_a_run_leaves_its_files(whole_run, small_folder_graph, task):
    result = json.loads((whole_run / "result.json").read_text())
    results = lines(whole_run)
    best = max(results, key=lambda r: r["val_accuracy"])
    assert sorted(p.name for p in whole_run.iterdir()) == [
        f"best-{best['epoch']}.pt", "checkpoint.pt", "metrics.jsonl", "model.pt", "result.json",
    ]  # fmt: skip
    assert [r["epoch"] for r in results] == [1, 2, 3, 4]
    assert result["best_epoch"] == best["epoch"]
    assert result["val_accuracy"] == best["val_accuracy"]
    assert (result["target_accuracy"], result["seconds_to_accuracy"]) == (None, None)
    with Trainer(small_folder_graph, CONFIG, task, TrainerOptions(scratch=whole_run)) as trainer:
        trainer.model.load_state_dict(state(whole_run, "model.pt"))
        assert (result["val_accuracy"], result["test_accuracy"]) == (trainer.validate(), trainer.test())
    assert result["config"] == CONFIG.to_dict()
    assert result["task"] == task.to_dict()
    pyg = GraphSAGE(small_folder_graph.num_features, 32, 2, small_folder_graph.num_classes)
    pyg.load_state_dict(state(whole_run, "model.pt"))


def test_two_epochs_and_two_more_equal_four(whole_run, small_folder_graph, task, tmp_path):
    out = tmp_path / "halves"
    first = train(CONFIG, small_folder_graph, task=task, epochs=2, out=out)
    assert first.epochs == 2
    second = train(CONFIG, small_folder_graph, task=task, epochs=4, out=out, resume=True)
    assert second.epochs == 4
    assert_same_run(out, whole_run)


def test_a_run_may_go_on_in_another_mode(whole_run, small_folder_graph, task, tmp_path):
    out = tmp_path / "modes"
    train(CONFIG, small_folder_graph, task=task, epochs=1, out=out)
    other = CONFIG.replace(parallel_mode="mode1", num_workers=2, feature_tier="disk")
    train(other, small_folder_graph, task=task, epochs=4, out=out, resume=True)
    assert_same_run(out, whole_run)


@pytest.mark.parametrize("after", [1, 5, 9], ids=["early", "second_epoch", "third_epoch"])
def test_ctrl_c_keeps_every_mini_batch(after, whole_run, small_folder_graph, task, tmp_path, monkeypatch):
    out = tmp_path / "interrupted"
    trained = []
    step = Trainer._train

    def count_and_interrupt(self, batch):
        trained.append((batch.epoch, batch.index))
        if len(trained) == after:
            os.kill(os.getpid(), signal.SIGINT)  # in the middle of the mini-batch
        return step(self, batch)

    monkeypatch.setattr(Trainer, "_train", count_and_interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"is saved after .* resume=True goes on from there"):
        train(CONFIG, small_folder_graph, task=task, epochs=4, out=out)
    assert len(trained) == after
    train(CONFIG, small_folder_graph, task=task, epochs=4, out=out, resume=True)
    assert len(trained) == len(set(trained))
    assert_same_run(out, whole_run)


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_ctrl_c_in_an_evaluation_stops_it_at_the_next_chunk(model, small_folder_graph, task, tmp_path, monkeypatch):
    task = dataclasses.replace(task, model=model)
    train(CONFIG, small_folder_graph, task=task, epochs=3, patience=10, out=tmp_path / "whole")
    # The first evaluation finds the nodes that layers need and takes a chunk in each of two layers; gcn counts degrees.
    last = {"sage": 4, "gcn": 5}[model]
    taken, chunks = [], Neighborhoods.chunks

    def interrupt_the_last(self, *arguments):
        for chunk in chunks(self, *arguments):
            taken.append(len(chunk))
            if len(taken) == last:  # the hidden layer's, in the second epoch
                os.kill(os.getpid(), signal.SIGINT)
            yield chunk

    with monkeypatch.context() as patch:
        patch.setattr(Neighborhoods, "chunks", interrupt_the_last)
        with pytest.raises(KeyboardInterrupt, match=r"is saved after 1 epoch and .* resume=True goes on from there"):
            train(CONFIG, small_folder_graph, task=task, epochs=3, patience=10, out=tmp_path / "cut")
    assert len(taken) == last
    assert len(lines(tmp_path / "cut")) == 1
    train(CONFIG, small_folder_graph, task=task, epochs=3, patience=10, out=tmp_path / "cut", resume=True)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_a_run_killed_without_warning_goes_on_from_its_checkpoint(whole_run, small_folder_graph, task, tmp_path):
    out = tmp_path / "killed"

    def die(line: str) -> None:
        if line.startswith("epoch   3"):
            raise RuntimeError("as if killed")

    with pytest.raises(RuntimeError, match="as if killed"):
        train(CONFIG, small_folder_graph, task=task, epochs=4, out=out, notify=die)
    train(CONFIG, small_folder_graph, task=task, epochs=4, out=out, resume=True)
    assert_same_run(out, whole_run)


def test_a_memory_limit_saves_and_says_how_to_go_on(whole_run, small_folder_graph, task, tmp_path):
    out = tmp_path / "limited"
    with pytest.raises(MemoryLimitError, match=r"must keep to 1.00 MiB .* is saved after 0 epochs and 1 mini-batch;"):
        train(CONFIG, small_folder_graph, task=task, epochs=4, out=out, host_memory_limit=2**20)
    train(CONFIG, small_folder_graph, task=task, epochs=4, out=out, resume=True)
    assert_same_run(out, whole_run)


def held(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)


@pytest.mark.skipif(sys.platform != "linux", reason="the flags of mmap are Linux's")
@pytest.mark.parametrize("who", ["thread", "forked process"])
def test_a_limit_counts_threads_of_the_run_and_not_other_processes(who, whole_run, small_folder_graph, task, tmp_path):
    out, config = tmp_path / "limited", CONFIG.replace(parallel_mode="mode1", num_workers=2)
    ended, children = threading.Event(), []

    def hold() -> None:
        memory_of_the_thread = held(2 * room)
        ended.wait(60)
        memory_of_the_thread.close()

    def start(line: str) -> None:
        if not line.startswith("epoch   2"):
            return
        if who == "thread":
            children.append(threading.Thread(target=hold))
            children[0].start()
            return
        ready, written = os.pipe()
        child = os.fork()
        if child == 0:
            kept = held(2 * room)
            os.write(written, b"1")
            time.sleep(60)
            os._exit(len(kept) == 0)
        children.append(child)
        os.read(ready, 1)

    room = 192 * 2**20
    limit = memory.host_bytes() + room
    arguments = {"task": task, "epochs": 4, "out": out, "host_memory_limit": limit}
    if who == "thread":
        with pytest.raises(MemoryLimitError, match=r"is saved after [23] epochs"):
            train(config, small_folder_graph, notify=start, **arguments)
        ended.set()
        children[0].join()
        train(config, small_folder_graph, **arguments, resume=True)
    else:
        train(config, small_folder_graph, notify=start, **arguments)
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)
    assert_same_run(out, whole_run)


def test_what_is_free_is_a_limit_where_there_is_no_other(whole_run, small_folder_graph, task, tmp_path, monkeypatch):
    out = tmp_path / "limited"
    with monkeypatch.context() as full:
        full.setattr(memory, "spare_bytes", lambda: -(2**20))  # a machine that is full can't be had here
        words = (
            r"must keep to .* less a reserve\) of host memory, .* end other programs.* is saved after 0 epochs and 1"
        )
        with pytest.raises(MemoryLimitError, match=words):
            train(CONFIG, small_folder_graph, task=task, epochs=4, out=out)
    train(CONFIG, small_folder_graph, task=task, epochs=4, out=out, resume=True)
    assert_same_run(out, whole_run)


def test_training_stops_when_validation_gets_no_better(small_folder_graph, tmp_path):
    task = Task(hidden_channels=8, learning_rate=1e-8)
    result = train(CONFIG, small_folder_graph, task=task, epochs=50, patience=3, out=tmp_path / "run")
    assert result.epochs == result.best_epoch + 3 < 50


def test_a_finished_run_resumes_to_the_same_result(whole_run, small_folder_graph, task):
    before = lines(whole_run)
    result = train(CONFIG, small_folder_graph, task=task, epochs=4, out=whole_run, resume=True)
    assert result.epochs == 4
    assert lines(whole_run) == before


def test_another_runs_folder_is_refused(whole_run, small_folder_graph, tiny_graph, task, tmp_path):
    with pytest.raises(UsageError, match="must be a new or empty folder; add resume=True"):
        train(CONFIG, small_folder_graph, task=task, out=whole_run)
    with pytest.raises(UsageError, match=r"has no checkpoint\.pt"):
        train(CONFIG, small_folder_graph, task=task, out=tmp_path / "nothing", resume=True)
    with pytest.raises(ConfigError, match="batch_size was 128 and is 64"):
        train(TrainConfig(batch_size=64), small_folder_graph, task=task, out=whole_run, resume=True)
    config = CONFIG.replace(seed_fanout=3, learning_rate_scale=2.0)
    with pytest.raises(ConfigError, match=r"seed_fanout was None and is 3; learning_rate_scale was 1\.0 and is 2\.0"):
        train(config, small_folder_graph, task=task, out=whole_run, resume=True)
    with pytest.raises(ConfigError, match="belongs to another run: graph was"):
        train(CONFIG, tiny_graph, task=task, out=whole_run, resume=True)
    with pytest.raises(UsageError, match="resume needs the out folder"):
        train(CONFIG, small_folder_graph, resume=True)


def test_a_checkpoint_of_a_later_knob_is_not_gone_on_from_at_its_default(small_folder_graph, task, tmp_path):
    out = tmp_path / "ordered"
    train(CONFIG.replace(seed_order="proximity"), small_folder_graph, task=task, epochs=1, out=out)
    with pytest.raises(ConfigError, match="seed_order was 'proximity' and is 'random'"):
        train(CONFIG, small_folder_graph, task=task, epochs=2, out=out, resume=True)


def test_a_broken_checkpoint_is_refused(whole_run, small_folder_graph, task):
    (whole_run / "checkpoint.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(ConfigError, match="must be a checkpoint"):
        train(CONFIG, small_folder_graph, task=task, out=whole_run, resume=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(tmp_path):
    target = tmp_path / "folder" / "checkpoint.pt"
    save(target, {"a": 1})
    before = target.read_bytes()
    with pytest.raises(A3GNNError, match="can't be written"):
        save(Path("/dev/full/checkpoint.pt"), {"a": 2})
    assert target.read_bytes() == before
    assert [p.name for p in target.parent.iterdir()] == ["checkpoint.pt"]


def test_a_tuned_json_supplies_task_dataset_and_limit(write_tuned, small_folder_graph, task, tmp_path):
    said: list[str] = []
    result = train(write_tuned(), epochs=2, out=tmp_path / "run", notify=said.append)
    assert result.task == task
    assert result.graph == small_folder_graph.name
    assert result.config.batch_size == 256
    assert [line[:9] for line in said[:2]] == ["epoch   1", "epoch   2"]
    assert said[2].startswith("validation accuracy was still improving when the 2 epochs ended")
    assert len(said) == 3


def test_a_long_run_prints_few_epochs_and_the_last_but_verbose_prints_each(small_folder_graph, task, tmp_path):
    every: list[str] = []
    said: list[str] = []
    options = {"task": task, "patience": 99, "out": tmp_path / "run"}
    train(CONFIG, small_folder_graph, epochs=30, notify=with_details(lambda line: every.append(line)), **options)
    train(CONFIG, small_folder_graph, epochs=60, notify=said.append, resume=True, **options)
    of_epochs = [line for line in every if line.startswith("epoch")]
    assert [int(line.split()[1]) for line in of_epochs] == list(range(1, 31))
    expected = [1, 2, 3, 4, 6, 9, 13, 19, 28, 30]
    assert [int(line.split()[1]) for line in of_epochs if shown(line)] == expected
    assert [int(line.split()[1]) - 30 for line in said if line.startswith("epoch")] == expected


def test_what_auto_chose_is_said_once(small_folder_graph, task, tmp_path):
    config = TrainConfig(batch_size=64, parallel_mode="mode1", resources="auto")
    said: list[str] = []
    train(config, small_folder_graph, task=task, epochs=4, out=tmp_path / "run", notify=said.append)
    assert sum(line.startswith("resources: ") for line in said) == 1


def test_another_graph_or_machine_is_said_and_runs(write_tuned, tiny_graph, tmp_path):
    tuned = TunedConfig.read(write_tuned())
    other = dataclasses.replace(tuned.setting.hardware, cpu="Another CPU", num_cores=64)
    path = write_tuned(setting=dataclasses.replace(tuned.setting, hardware=other))
    said: list[str] = []
    result = train(path, tiny_graph, epochs=1, out=tmp_path / "run", notify=said.append)
    assert result.epochs == 1
    assert "tuned for the graph" in said[0]
    assert "tuned on another machine (Another CPU, 64 cores" in said[1]


@pytest.mark.parametrize(
    ("tuned", "here", "said"),
    [
        ("PASSIVE", None, "measured with OMP_WAIT_POLICY=PASSIVE, but this process has no OMP_WAIT_POLICY"),
        ("PASSIVE", "active", "measured with OMP_WAIT_POLICY=PASSIVE, but this process has OMP_WAIT_POLICY=ACTIVE"),
        ("", "PASSIVE", "with no OMP_WAIT_POLICY (OpenMP's own), but this process has OMP_WAIT_POLICY=PASSIVE"),
        ("PASSIVE", "passive", None),
        ("", None, None),
        (None, "ACTIVE", None),
    ],
)
def test_another_wait_policy_than_the_tunes_is_said(tuned, here, said, write_tuned, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if here is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", here)
    lines: list[str] = []
    TrainRequest.of(write_tuned(wait_policy=tuned), None, None, None, None, lines.append)
    assert len(lines) == (said is not None)
    assert said is None or said in lines[0]


def test_a_dataset_must_come_from_somewhere():
    with pytest.raises(UsageError, match="needs a dataset"):
        train(CONFIG)


def test_test_nodes_are_evaluated_once_at_the_end(small_folder_graph, task, tmp_path, monkeypatch):
    calls, test = [], Trainer.test
    monkeypatch.setattr(Trainer, "test", lambda self: calls.append(1) or test(self))
    train(CONFIG, small_folder_graph, task=task, epochs=3, out=tmp_path / "run")
    assert calls == [1]


def test_ctrl_c_while_test_nodes_are_evaluated_keeps_the_last_mini_batchs_weights(
    whole_run, small_folder_graph, task, tmp_path, monkeypatch
):
    def interrupted(self):
        raise KeyboardInterrupt

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "test", interrupted)
        with pytest.raises(KeyboardInterrupt, match="is saved after 4 epochs"):
            train(CONFIG, small_folder_graph, task=task, epochs=4, out=out)
    assert not (out / "result.json").exists()
    train(CONFIG, small_folder_graph, task=task, epochs=4, out=out, resume=True)
    assert_same_run(out, whole_run)


def test_a_second_run_in_one_folder_is_refused_and_the_first_goes_on(small_folder_graph, task, whole_run, tmp_path):
    out, heard = tmp_path / "run", []

    def begins_another(line):
        heard.append(line)
        if len(heard) == 1:
            with pytest.raises(UsageError, match=f"another process runs there: process {os.getpid()} since"):
                train(CONFIG, small_folder_graph, task=task, epochs=9, out=out, resume=True)

    train(CONFIG, small_folder_graph, task=task, epochs=4, out=out, notify=begins_another)
    assert_same_run(whole_run, out)


def test_a_folder_is_taken_before_the_first_file_is_written(small_folder_graph, task, tmp_path):
    with claimed(tmp_path / "run"), pytest.raises(UsageError, match="one run at a time may write"):
        train(CONFIG, small_folder_graph, task=task, epochs=1, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_training_left_does_not_count(small_folder_graph: Graph, tmp_path: Path) -> None:
    def trained(name: str) -> TrainResult:
        return train(TrainConfig(), small_folder_graph, epochs=1, out=tmp_path / name, notify=lambda line: None)

    gc.collect()
    gc.disable()
    others = [one for one in gc.get_objects() if type(one) is BuiltIn]  # that earlier tests keep
    try:
        alone = trained("alone").peak_host_bytes
        models = [one for one in gc.get_objects() if type(one) is BuiltIn]
        assert len(models) == len(others)  # a cycle would keep all memory
        left = [bytes(1 << 16) for _ in range(1 << 12)]  # 256 MiB that the C library keeps
        del left
        assert trained("after").peak_host_bytes < alone + (128 << 20)
    finally:
        gc.enable()
