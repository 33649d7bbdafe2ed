"""Tunes of a search of one's own: trials, journals, resume, enqueued trials, callbacks, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch

from a3gnn import predict, train, tune
from a3gnn.config import TrainConfig
from a3gnn.errors import InfeasibleError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.page.views import study_views
from a3gnn.profiling.request import TrialRequest
from a3gnn.search import checked_search, search_of
from a3gnn.task import Task
from a3gnn.training.describe import described, redescribed
from a3gnn.training.examine import examine, try_values
from a3gnn.training.saved_model import SavedModel
from a3gnn.training.trainer import Trainer
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.compare import compare, compare_lines
from a3gnn.tuning.outcome.kept_tune import KeptTune
from a3gnn.tuning.outcome.optuna_export import export_to_optuna
from a3gnn.tuning.outcome.pick import pick
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.study.folder import Journal
from a3gnn.tuning.tell.tried_trial import TriedTrial
from tests.graphs.test_typed_task import papers
from tests.own_models import Package
from tests.tuning.formulas import SMALL_SPACE, Formulas

SEARCH: dict[str, Any] = {"hidden": [8, 16, 32], "layers": [1, 2, 3], "dropout": (0.0, 0.6)}
#: A factory with further arguments, one of them with a default.
_FACTORY = """
import torch
from torch.nn import functional as F
from torch_geometric.nn import SAGEConv


class Net(torch.nn.Module):
    def __init__(self, widths, dropout):
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(one, other) for one, other in zip(widths, widths[1:])])
        self.dropout = dropout

    def forward(self, x, edge_index):
        for conv in self.convs[:-1]:
            x = F.dropout(conv(x, edge_index).relu(), self.dropout, self.training)
        return self.convs[-1](x, edge_index)


def make(in_channels, out_channels, hidden, dropout=0.5, layers=2):
    if hidden == 13:
        raise ValueError("13 is unlucky")
    return Net([in_channels, *[hidden] * (layers - 1), out_channels], dropout)
"""


@pytest.fixture
def factory(package: Package) -> str:
    (package.folder / "searched.py").write_text(_FACTORY)
    return f"{package.name}.searched:make"


def test_trials_train_what_their_configurations_search(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas]
) -> None:
    seen: list[tuple[TrainConfig, Task]] = []

    def note(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        seen.append((request.config, request.task))
        return metrics

    found = quick_tune(search=SEARCH, budget=6, executor=formulas(note), max_accuracy_drop=100.0)
    searched = [config for config, _ in seen if config.searched]
    assert len({config.searched for config in searched}) > 2
    for config, task in seen:
        values = dict(config.searched)
        assert task.hidden_channels == values.get("hidden_channels", 16)
        assert task.num_layers == values.get("layers", 2)
    assert found.tuned.task == found.config.task_of(found.tuned.setting.task)


def test_a_tune_of_a_search_goes_on_as_if_it_had_not_been_interrupted(
    quick_tune: Callable[..., TuneResult], tmp_path: Path
) -> None:
    options = {"search": SEARCH, "max_accuracy_drop": 100.0, "engine": "ei"}
    quick_tune(**options, budget=5, out=tmp_path / "whole")
    quick_tune(**options, budget=2)
    quick_tune(**options, budget=5, resume=True)
    whole, resumed = (
        [one.measurement.config for one in Journal(tmp_path / name).read() if one.counts] for name in ("whole", "run")
    )
    assert resumed == whole
    assert any(config.searched for config in whole)
    with pytest.raises(UsageError, match="search"):
        quick_tune(search={"hidden": [8, 16]}, budget=6, resume=True)


def test_enqueued_trials_run_first_and_a_callback_ends_the_search(
    quick_tune: Callable[..., TuneResult], tmp_path: Path
) -> None:
    seen: list[TriedTrial] = []

    def callback(trial: TriedTrial) -> bool:
        seen.append(trial)
        return trial.number == 3

    first = [{"hidden": 32, "dropout": 0.123}, {"layers": 3, "num_workers": 2, "parallel_mode": "mode1"}]
    quick_tune(search=SEARCH, enqueue=first, callback=callback, budget=9, max_accuracy_drop=100.0)
    assert [trial.number for trial in seen] == [1, 2, 3]
    assert seen[0].searched == {"hidden_channels": 32, "layers": 2, "dropout": 0.123}
    assert (seen[1].searched["layers"], seen[1].config.parallel_mode) == (3, "mode1")
    trials = [one for one in Journal(tmp_path / "run").read() if one.counts]
    assert [one.reason for one in trials[:2]] == ["enqueued", "enqueued"]


@pytest.mark.parametrize(
    ("enqueue", "error"),
    [
        ([{"width": 3}], "enqueue"),
        ([{"hidden": 9}], "must be one of the search's"),
        ([{"parallel_mode": "mode3"}], "parallel_mode"),
        ([{"cache_bytes": 4096}], "which this tune holds it to"),
        ({"hidden": 8}, "must be a list of mappings"),
    ],
)
def test_a_trial_that_can_not_be_is_refused_before_anything_is_written(
    enqueue: Any, error: str, quick_tune: Callable[..., TuneResult], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=error):
        quick_tune(search=SEARCH, enqueue=enqueue, fix=SMALL_SPACE | {"cache_bytes": 0})
    assert not (tmp_path / "run").exists()


def test_kept_tunes_and_tuned_json_have_the_search(quick_tune: Callable[..., TuneResult], tmp_path: Path) -> None:
    found = quick_tune(search=SEARCH, budget=6, max_accuracy_drop=100.0, priority="throughput")
    kept = KeptTune.read(tmp_path / "run")
    assert [one.name for one in kept.history.study.request.search] == ["hidden_channels", "layers", "dropout"]
    assert kept.history.space.names[-3:] == ("hidden_channels", "layers", "dropout")
    assert TunedConfig.read(tmp_path / "run").task == found.tuned.task
    rows = json.loads((tmp_path / "run" / "front.json").read_text())["rows"]
    assert {json.dumps(row["config"].get("searched")) for row in rows} == {
        json.dumps(dict(one.measurement.config.searched) or None) for one in kept.history.trials
    }


def test_reports_exports_picks_and_comparisons_have_the_search(
    quick_tune: Callable[..., TuneResult], tmp_path: Path
) -> None:
    quick_tune(search=SEARCH, budget=5, max_accuracy_drop=100.0)
    quick_tune(search={"norm": ["none", "layer"]}, budget=3, max_accuracy_drop=100.0, out=tmp_path / "other")
    kept = KeptTune.read(tmp_path / "run")
    searched = [dict(one.measurement.config.searched) for one in kept.history.trials]
    views = study_views(tmp_path / "run")
    assert [row["config"].get("searched", {}) for row in views["rows"]] == searched
    for row in views["rows"]:
        assert all(row["values"][knob["name"]] in knob["values"] for knob in views["knobs"])
    assert {"hidden_channels", "layers", "dropout"} <= {knob["name"] for knob in views["knobs"]}
    exported = export_to_optuna(tmp_path / "run", f"sqlite:///{tmp_path}/optuna.db")
    study = optuna.load_study(study_name=exported.study_name, storage=exported.url)
    base = {"hidden_channels": 16, "layers": 2, "dropout": 0.5}
    for trial, values in zip(study.trials, searched, strict=True):
        assert {name: trial.params[name] for name in base} == base | values
    found = pick(tmp_path / "run", priority="memory")
    assert found.tuned.task == found.config.task_of(kept.setting.task)
    header, *lines = (tmp_path / "run" / "front.csv").read_text().splitlines()
    names = {name for values in searched for name in values}
    assert set(header.split(",")[-len(names) :]) == names
    assert len(lines) == len({one.measurement.config.key() for one in kept.history.trials})
    compared = compare([tmp_path / "run", tmp_path / "other"])
    assert "hidden_channels" in compared.knobs or not dict(kept.tuned.config.searched).get("hidden_channels")
    assert list(compare_lines(compared))
    assert compared.csv()


def test_a_model_that_is_too_wide_breaks_the_limit_and_the_tune_goes_on(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas], tmp_path: Path
) -> None:
    def wide(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if request.task.hidden_channels > 16:
            return Failure(FailureKind.OUT_OF_MEMORY, "too wide", 600 << 20, float(500 << 20))
        return metrics

    found = quick_tune(
        search=SEARCH,
        enqueue=[{"hidden": 32}],
        memory_limit="500MiB",
        budget=4,
        executor=formulas(wide),
        max_accuracy_drop=100.0,
    )
    trials = [one for one in Journal(tmp_path / "run").read() if one.counts]
    assert isinstance(trials[0].measurement.outcome, Failure)
    assert any(one.metrics for one in trials)
    assert found.tuned.task.hidden_channels <= 16


def test_a_search_without_a_width_that_fits_is_refused_before_anything_is_trained(
    quick_tune: Callable[..., TuneResult], tmp_path: Path
) -> None:
    with pytest.raises(InfeasibleError, match="hidden_channels must have a value that fits 500"):
        quick_tune(search={"hidden": [2**16, 2**17], "layers": [3]}, memory_limit="500MiB")
    assert not (tmp_path / "run").exists()


def test_a_width_with_a_condition_is_for_trials_to_find_out(quick_tune: Callable[..., TuneResult]) -> None:
    width = {"values": [30, 10**6], "when": {"model": "sage"}}
    found = quick_tune(search={"model": ["sage", "gat"], "hidden": width}, host_memory_limit="2GiB", budget=1)
    assert found.config is not None


def test_models_that_read_different_values_of_edges_are_not_searched(
    quick_tune: Callable[..., TuneResult], tiny_graph: Graph
) -> None:
    data = tiny_graph.to_pyg()
    data.edge_weight = torch.ones(data.edge_index.shape[1])
    with pytest.raises(UsageError, match="model must be left out on a graph with edge_weight"):
        quick_tune(data, search={"model": ["sage", "gcn"]})
    result = quick_tune(data, priority="quality", engine="ppo", budget=3)
    assert "model" not in {one.name for one in KeptTune.read(result.folder).history.study.request.search}


@pytest.mark.parametrize("engine", ["ppo", "gp", "tpe", "nsga2"])
def test_every_engine_proposes_values_of_a_search(
    engine: str, quick_tune: Callable[..., TuneResult], tmp_path: Path
) -> None:
    quick_tune(search=SEARCH, budget=4, max_accuracy_drop=100.0, engine=engine, priority="accuracy")
    trials = [one for one in Journal(tmp_path / "run").read() if one.counts]
    assert len({one.measurement.config.key() for one in trials}) == len(trials)
    assert any(one.measurement.config.searched for one in trials)


def examined(factory: str, graph: Graph, **given: Any) -> dict[str, Any]:
    """What is found of a factory and the values of a search in this process."""
    task = Task(model=factory, fanouts=(5, 3))
    search = [one.to_dict() for one in checked_search(search_of(given), task)]
    argument = {"task": task.to_dict(), "graph_folder": str(graph.folder), "evaluation_bytes": 2**34, "search": search}
    found = examine(argument)
    return found if "error" in found else found | try_values(argument | found)


def test_a_factory_gets_its_arguments_by_name(factory: str, tiny_folder_graph: Graph) -> None:
    found = examined(factory, tiny_folder_graph, hidden=[8, 16, 32], dropout=(0.0, 0.6), layers=[1, 2, 3])
    assert Task.from_dict(found["task"]).arguments == (("dropout", 0.5), ("hidden", 16), ("layers", 2))
    for given, error in (
        ({"width": [8]}, "argument"),
        ({"hidden": [4, 8, 13]}, "refuses hidden=13: ValueError: 13 is unlucky"),
        ({"hidden": [8], "layers": [3, 4]}, "must include 2, which"),
    ):
        found = examined(factory, tiny_folder_graph, **given)
        assert found["usage"]
        assert error in found["error"]
        assert "\n" not in found["error"]


#: A tune in a process of its own, whose trials are quick.
_TUNE = """
import sys
from a3gnn import Graph, Task, tune
found = tune(
    Graph.load(sys.argv[1]),
    model=sys.argv[2],
    task=Task(fanouts=(5, 3)),
    search={"hidden": [8, 16, 32], "layers": [1, 2, 3], "dropout": (0.0, 0.6)},
    enqueue=[{"hidden": 32, "layers": 3}],
    priority="accuracy",
    budget=2,
    engine="random",
    out=sys.argv[3],
)
assert len(found.make_model().convs) == dict(found.tuned.task.arguments)["layers"]
"""


@pytest.mark.slow
def test_a_factorys_search_is_tuned_trained_and_made(factory: str, tiny_folder_graph: Graph, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _TUNE, str(tiny_folder_graph.folder), factory, str(tmp_path / "run")]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=True, timeout=300)
    journal = [one.measurement for one in Journal(tmp_path / "run").read()]
    assert dict(journal[1].config.searched) == {"hidden": 32, "layers": 3}
    assert journal[1].metrics is not None
    chosen = TunedConfig.read(tmp_path / "run")
    train(chosen, tiny_folder_graph, epochs=1, out=tmp_path / "model")
    assert SavedModel.read(tmp_path / "model").task.arguments == chosen.task.arguments
    assert len(predict(tmp_path / "model", tiny_folder_graph)) == tiny_folder_graph.num_nodes


def test_a_configuration_of_a_search_trains_the_factory_that_is_given(
    factory: str, tiny_folder_graph: Graph, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"epochs": 1, "references": False, "out": tmp_path / "run"}
    found = train(TrainConfig(searched={"hidden": 12, "layers": 3}), tiny_folder_graph, model=factory, **options)
    assert (dict(found.task.arguments)["hidden"], found.task.num_layers) == (12, 3)


def test_a_search_of_a_shipped_model_makes_another_model_in_each_trial() -> None:
    graph = Graph.from_pyg(papers()).on_disk()
    task = described(Task(model="rsage", hidden_channels=8, fanouts=(3, 3)), graph)
    config = TrainConfig(searched={"hidden_channels": 16, "layers": 3})
    found = redescribed(config.task_of(task), graph)
    assert found.own != task.own
    with Trainer(graph, config, found) as trainer:
        assert trainer.task.num_layers == 3
    assert config.replace(searched={"learning_rate": 0.1}).task_of(task).own == task.own


def test_the_recipe_for_quality_is_refused_where_the_graph_decides_another_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a built-in model or a search of your own, got rsage"):
        tune(Graph.from_pyg(papers()), priority="quality", out=tmp_path / "run")
    assert not (tmp_path / "run" / "journal.jsonl").exists()
