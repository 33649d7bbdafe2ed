"""`torchrun -m a3gnn train`: what several processes leave behind, and what is left where one of them is killed."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from a3gnn import Graph, Loader
from a3gnn.apply.train import train
from a3gnn.cli.main import app
from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError, UsageError
from a3gnn.launch import Launch, launch
from a3gnn.sampling.share import cut, seed_bounds
from a3gnn.training.step import traversed
from a3gnn.training.trainer import Trainer
from tests.training.ranks.launched import ended, kill_rank, run, run_loop, says_why, start

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
VARIABLES = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
#: What does not depend on how fast it went.
LEARNT = ("epoch", "loss", "val_accuracy")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = torch.load(folder / "model.pt", weights_only=True)
    return state


def learned(folder: Path) -> list[dict[str, float]]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{name: line[name] for name in LEARNT} for line in lines]


def traversed_by(folder: Path) -> list[float | None]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [None if line["nvtps"] is None else line["nvtps"] * line["train_s"] for line in lines]


def test_the_environment_says_which_process_this_is():
    assert launch({}) is None
    assert launch(VARIABLES | {"WORLD_SIZE": "1"}) is None
    assert launch(VARIABLES) == Launch(1, 4, 0, 2)
    with pytest.raises(UsageError, match="RANK=''"):
        launch({"WORLD_SIZE": "2"})


def test_variables_that_a_scheduler_sets_refuse_no_command(monkeypatch, capsys):
    for name in (*VARIABLES, "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")  # as of a PyTorchJob of Kubeflow
    app.main(args=["doctor", "--help"], standalone_mode=False)
    assert "doctor" in capsys.readouterr().out
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    with pytest.raises(UsageError, match="must be integers"):
        app.main(args=["doctor", "--help"], standalone_mode=False)


def test_only_training_runs_in_several_processes(monkeypatch):
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="torchrun must run a3gnn train, got tune in 4 processes"):
        app.main(args=["tune", "--help"], standalone_mode=False)


@pytest.mark.slow
def test_two_processes_train_as_one(write_tuned, small_folder_graph, tmp_path):
    config = write_tuned(config=TrainConfig(batch_size=256, cache_bytes=40_000, bias_rate=4.0))
    arguments = ["--config", config, "--model", "gin", "--epochs", "3"]
    told = json.loads(run("-m", "a3gnn", "train", *arguments, "--out", tmp_path / "two", "--json"))
    one = train(config, model="gin", epochs=3, out=tmp_path / "one")
    assert (told["ranks"], one.ranks) == (2, 1)
    assert told["test_accuracy"] == pytest.approx(one.test_accuracy, abs=0.01)
    first = json.loads((tmp_path / "two" / "metrics.jsonl").read_text().splitlines()[0])
    with Trainer(small_folder_graph, one.config, one.task) as trainer:
        samples = trainer.first_samples(trainer.batches_per_epoch)
    halves = [
        cut(whole, low, high) for whole in samples for low, high in pairwise(seed_bounds(whole.num_seeds, (1, 1)))
    ]
    found = (first["nvtps"] * first["train_s"], 1e6 * first["mteps"] * first["train_s"])
    assert found == pytest.approx(traversed(halves), rel=1e-9)  # of both ranks
    for own, expected in zip(learned(tmp_path / "two"), learned(tmp_path / "one"), strict=True):
        assert own == pytest.approx(expected, rel=2e-3)
    assert {path.name for path in (tmp_path / "two").iterdir()} == {path.name for path in (tmp_path / "one").iterdir()}
    for name, own in weights(tmp_path / "two").items():
        assert torch.allclose(own.float(), weights(tmp_path / "one")[name].float(), rtol=0.05, atol=0.02), name
    with pytest.raises(ConfigError, match="ranks was 2 and is 1"):
        train(config, model="gin", epochs=4, out=tmp_path / "two", resume=True)


@pytest.mark.weekly
@pytest.mark.parametrize("killed", [[(0, 2)], [(1, 1), (0, 3)]], ids=["once", "twice"])
def test_a_killed_rank_ends_the_rest_with_a_checkpoint_from_which_they_go_on_bit_identically(
    killed, write_tuned, tmp_path
):
    config = write_tuned(config=TrainConfig(batch_size=32))
    epochs = str(2 + 2 * len(killed))
    common = ["-m", "a3gnn", "train", "--config", config, "--model", "gin", "--epochs", epochs, "--quiet"]
    run(*common, "--out", tmp_path / "whole")
    for victim, least in killed:
        more = ["--resume"] if (tmp_path / "broken").exists() else []
        broken = start(*common, "--out", tmp_path / "broken", *more)
        log = tmp_path / "broken" / "metrics.jsonl"
        kill_rank(broken, victim, lambda: log.exists() and len(log.read_text().splitlines()) >= least)  # noqa: B023
        before = (tmp_path / "broken" / "checkpoint.pt").stat().st_mtime_ns
        code, _, err = ended(broken)
        assert code != 0
        assert says_why(err)
        assert "goes on from there" in err
        assert (tmp_path / "broken" / "checkpoint.pt").stat().st_mtime_ns > before
        state = torch.load(tmp_path / "broken" / "checkpoint.pt", weights_only=True)
        assert len(state["progress"]["epochs"]) >= least
        assert not (tmp_path / "broken" / "model.pt").exists()
    run(*common, "--out", tmp_path / "broken", "--resume")
    assert learned(tmp_path / "broken") == learned(tmp_path / "whole")
    counted = list(zip(*(traversed_by(tmp_path / which) for which in ("broken", "whole")), strict=True))
    assert sum(own is None for own, _ in counted) <= 2  # the epochs that it was resumed within
    assert all(own is None or own == pytest.approx(expected, rel=1e-9) for own, expected in counted)
    expected = weights(tmp_path / "whole")
    assert all(torch.equal(own, expected[name]) for name, own in weights(tmp_path / "broken").items())


@pytest.mark.weekly  # test_own_loops has both ways
@pytest.mark.slow
@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
def test_a_loop_of_ones_own_over_two_processes_is_one_over_whole_mini_batches(wrap, small_folder_graph, tmp_path):
    import torch.nn.functional as F  # noqa: N812
    from torch_geometric.nn import GraphSAGE

    graph = Graph.load(small_folder_graph.folder)
    script = Path(__file__).parents[2] / "examples" / "distributed_loop.py"
    run_loop(script, wrap, small_folder_graph.folder, tmp_path / "weights.pt")
    torch.manual_seed(0)
    model = GraphSAGE(graph.num_features, 16, 2, graph.num_classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = Loader(graph, [5, 3], graph.train_ids, batch_size=150, shuffle=True)
    for _ in range(2):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            F.cross_entropy(out, batch.y[: batch.batch_size].long()).backward()
            optimizer.step()
    found = torch.load(tmp_path / "weights.pt", weights_only=True)
    for name, expected in model.state_dict().items():
        assert torch.allclose(found[name], expected, rtol=1e-4, atol=1e-5), name


@pytest.mark.slow
def test_two_processes_end_by_themselves_where_one_does(write_tuned, tmp_path):
    config = write_tuned(config=TrainConfig(batch_size=64))
    options = ["--out", tmp_path / "two", "--json"]
    told = json.loads(run("-m", "a3gnn", "train", "--config", config, *options))
    assert (told["ranks"], told["ended"], told["still_improving"]) == (2, "no better", False)
    evaluated = learned(tmp_path / "two")
    assert (
        told["epochs"]
        == len(evaluated)
        > told["best_epoch"]
        == max(range(1, len(evaluated) + 1), key=lambda epoch: evaluated[epoch - 1]["val_accuracy"])
    )
    states = [
        torch.load(path, weights_only=True)["progress"] for path in sorted((tmp_path / "two").glob("checkpoint*"))
    ]
    assert any(state["points"] for state in states)  # both evaluated within epochs, or one would wait for ever
