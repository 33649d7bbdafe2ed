"""Tunes of models of the user's: what is found out before them, what they leave out, and whole ones."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from a3gnn import TrainConfig, train, tune
from a3gnn.errors import ModelError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.measurement import Failure, FailureKind, Measurement, Metrics
from a3gnn.process import memory
from a3gnn.profiling.known import StoredCurves
from a3gnn.profiling.request import OPENING, TrialRequest
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import OwnModel, Task
from a3gnn.training.examine import examine, examined
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.recommend import recommend
from a3gnn.tuning.tell.intro import model_lines
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.features import feature_matrix
from a3gnn_surrogate.physics.analytic import analytic_metrics
from tests.own_models import Package

SPEC = "synthetic:nodes=1500,degree=8,classes=4,features=24"
MUCH = 2**34
#: Seconds.
BUDGET_S = 40.0
#: A model whose input layer reads no table.
_ATTENTION = """
import torch
from torch_geometric.nn import GAT


def Attention(in_channels, out_channels):
    return GAT(in_channels, 8, 2, out_channels, heads=2)
"""


def found(package: Package, graph: Graph, name: str = "Edges", room: int = MUCH) -> OwnModel:
    """What is found of a model in this process."""
    factory = name if ":" in name else package.factory(name)
    task = Task(model=factory, fanouts=(5, 3))
    answer = examine({"task": task.to_dict(), "graph_folder": str(graph.folder), "evaluation_bytes": room})
    own = Task.from_dict(answer["task"]).own
    assert own is not None
    return own


def setting_of(package: Package, graph: Graph, hardware: Hardware, name: str = "Edges", **changes: bool) -> Setting:
    own = dataclasses.replace(found(package, graph, name), **changes)
    task = Task(model=name if ":" in name else package.factory(name), fanouts=(5, 3), own=own)
    return Setting(task, graph.characteristics(), hardware)


def test_a_model_is_examined_in_a_process_of_its_own(package: Package, tiny_folder_graph: Graph) -> None:
    task = Task(model=package.factory("make_layers"), fanouts=(5, 3))
    own = examined(task, tiny_folder_graph, MUCH).own
    assert own is not None
    assert (own.takes, own.repeats, own.sampled) == ("adjs", True, "none")
    assert own == found(package, tiny_folder_graph, "make_layers")
    with pytest.raises(UsageError, match="has no attribute 'Edge'"):
        examined(Task(model=package.factory("Edge"), fanouts=(5, 3)), tiny_folder_graph, MUCH)
    assert examined(Task(), tiny_folder_graph, MUCH) == Task()


def test_what_is_not_the_same_twice_is_noticed(package: Package, tiny_folder_graph: Graph) -> None:
    body = "    def forward(self, x, edge_index): return super().forward(x * random.random(), edge_index)"
    model = package.add_class(body)
    module = package.folder / f"{model.partition(':')[0].partition('.')[2]}.py"
    module.write_text(f"import random\n{module.read_text()}")
    assert not found(package, tiny_folder_graph, model).repeats
    assert found(package, tiny_folder_graph).repeats


def test_a_model_that_can_only_be_evaluated_by_a_sample_is_another_task(package, tiny_folder_graph) -> None:
    small, much = found(package, tiny_folder_graph, room=1000), found(package, tiny_folder_graph)
    assert (small.sampled, much.sampled) == ("all", "none")
    assert small != much
    assert much.pass_bytes == round(much.cost.bytes(tiny_folder_graph.num_nodes, tiny_folder_graph.num_edges))


def test_an_exception_in_training_ends_the_tune_with_its_traceback(quick_tune, package, tmp_path) -> None:
    body = "    def loss(self, outputs, labels): raise RuntimeError('no loss today')"
    model = package.add_class(body)
    with pytest.raises(ModelError, match=r"raised an exception:\n(?s:.*)RuntimeError: no loss today"):
        quick_tune(model=model, task=Task(fanouts=(5, 3)), budget=1)
    assert not (tmp_path / "run").exists()


_HANGS = {
    "being built": "    def __init__(self, i, o): super().__init__(i, o); time.sleep(600)",
    "forward": "    def forward(self, x, edge_index): time.sleep(600)",
    "the loss": "    def loss(self, outputs, labels): time.sleep(600)",
    "backward": """
    def forward(self, x, edge_index):
        out = super().forward(x, edge_index)
        if out.requires_grad:
            out.register_hook(lambda gradient: time.sleep(600))
        return out
""",
    "an optimizer": "    def optimizer(self, learning_rate): time.sleep(600)",
}


@pytest.mark.weekly
@pytest.mark.parametrize("body", _HANGS.values(), ids=_HANGS)
def test_a_model_that_hangs_is_examined_no_longer_than_the_budget(
    body: str, package, tiny_folder_graph, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("a3gnn.training.examine._LEAST_SECONDS", 1.0)
    model = package.add_class(body)
    module = package.folder / f"{model.partition(':')[0].partition('.')[2]}.py"
    module.write_text(f"import time\n{module.read_text()}")
    lines: list[str] = []
    options = {"task": Task(fanouts=(5, 3)), "budget": 20.0, "out": tmp_path / "run", "notify": lines.append}
    with pytest.raises(
        ModelError, match=rf"took longer than .* s, and was at {re.escape(str(module))}:\d+ in .*; .*larger budget"
    ):
        tune(tiny_folder_graph, model=model, **options)
    assert any(line.startswith(f"examining {model} on a few mini-batches") for line in lines)
    assert not (tmp_path / "run").exists()


def test_the_examination_keeps_a_budget_that_is_nearly_spent(package, tiny_folder_graph, monkeypatch) -> None:
    monkeypatch.setattr("a3gnn.training.examine._LEAST_SECONDS", 1.0)
    model = package.add_class(_HANGS["being built"].replace("time.sleep", "__import__('time').sleep"))
    lines: list[str] = []
    with pytest.raises(ModelError, match=r"took longer than 2\.0 s"):
        examined(Task(model=model, fanouts=(5, 3)), tiny_folder_graph, MUCH, left_s=2.0, notify=lines.append)
    assert lines[0].endswith("(up to 2.0 s)")


def test_a_model_that_takes_what_is_free_is_told_to_end_other_programs(package, tiny_folder_graph, monkeypatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 64 << 20)  # a machine that is full can't be had here
    keeps = "self.kept = [bytearray(b'1') * 2**24 for _ in range(400)]"
    body = f"    def __init__(self, i, o): super().__init__(i, o); {keeps}"
    words = r"passed the limit of .* \(its memory at the start plus .*; end other programs, make"
    with pytest.raises(ModelError, match=words):
        examined(Task(model=package.add_class(body), fanouts=(5, 3)), tiny_folder_graph, MUCH)


def test_a_model_that_takes_all_memory_is_examined_no_further_than_the_limit(package, tiny_folder_graph) -> None:
    keeps = "self.kept = [bytearray(b'1') * 2**24 for _ in range(400)]"
    body = f"    def __init__(self, i, o): super().__init__(i, o); {keeps}"
    with pytest.raises(ModelError, match=r"passed the limit of 512 MiB: it held .*; raise the memory limit, make"):
        examined(Task(model=package.add_class(body), fanouts=(5, 3)), tiny_folder_graph, MUCH, limit_bytes=1 << 20)


def test_a_resumed_tune_keeps_what_was_found_of_repeating(quick_tune, package, tmp_path) -> None:
    options = {"task": Task(fanouts=(5, 3)), "model": package.factory("Edges"), "budget": 2}
    first = quick_tune(**options)
    path = tmp_path / "run" / "request.json"
    request = json.loads(path.read_text())
    assert request["task"]["own"]["repeats"]
    request["task"]["own"]["repeats"] = False
    path.write_text(json.dumps(request))
    assert quick_tune(**options, resume=True).tuned == first.tuned


def test_a_model_that_has_changed_is_trained_but_tuned_no_further(quick_tune, package, tmp_path) -> None:
    options = {"task": Task(fanouts=(5, 3)), "model": package.factory("Layers"), "budget": 1}
    tuned = quick_tune(**options).tuned
    lines: list[str] = []
    trained = train(tuned, epochs=1, out=tmp_path / "trained", notify=lines.append)
    assert trained.task.is_same_model(tuned.setting.task)
    assert not any("has changed since the tune" in line for line in lines)
    package.write("widths", "HIDDEN = 32  # changed\n")
    with pytest.raises(UsageError, match=r"first run: task\.own\.sources was '\w+' and is '\w+'; choose"):
        quick_tune(**options, resume=True)
    train(tuned, epochs=1, out=tmp_path / "again", notify=lines.append)
    assert any("or one of its imports has changed since the tune" in line for line in lines)


def test_a_default_that_the_model_fails_ends_the_tune(quick_tune, formulas, package) -> None:
    failure = Failure(FailureKind.CRASHED, "Traceback\nRuntimeError: the first trial found it")
    with pytest.raises(ModelError, match=r"can't be trained by the baseline configuration:\nTraceback\n.*found it"):
        quick_tune(
            task=Task(fanouts=(5, 3)),
            model=package.factory("Edges"),
            executor=formulas(lambda request, metrics, before: failure),
        )


def test_a_default_of_an_own_model_whose_time_ends_while_it_opens_is_tried_from_disk(
    quick_tune, formulas, package
) -> None:
    def opens(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        late = Failure(FailureKind.TIMEOUT, f"{OPENING}: took longer than 60 s", limit=60.0)
        return late if request.config.feature_tier == "ram" else metrics

    executor = formulas(opens)
    options = {"task": Task(fanouts=(5, 3)), "model": package.factory("Edges"), "budget": 1}
    quick_tune(**options, fix={"feature_tier": "disk"}, executor=executor)
    assert [one.config.feature_tier for one in executor.explored][:2] == ["ram", "disk"]


def test_knobs_that_do_not_apply_leave_the_space_and_it_is_said(package, tiny_folder_graph, hardware) -> None:
    fast = dataclasses.replace(hardware.profile, bf16_gemm_flops_per_s=9 * hardware.profile.gemm_flops_per_s)
    machine = dataclasses.replace(hardware, profile=fast)
    values, lines = {}, {}
    package.write("attention", _ATTENTION)
    for name in ("Edges", "Layers", f"{package.name}.attention:Attention"):
        setting = setting_of(package, tiny_folder_graph, machine, name)
        space = SearchSpace.of(setting)
        values[name] = [space.knob(knob).values for knob in ("input_aggregation", "compute_dtype")]
        lines[name] = "\n".join(model_lines(setting, tiny_folder_graph, MUCH))
        assert "accuracy is computed from the whole graph at once" in lines[name]
    attention = f"{package.name}.attention:Attention"
    assert values[attention] == [("sampled",), ("float32", "bfloat16")]
    assert values["Edges"] == [("sampled", "full"), ("float32", "bfloat16")]
    assert values["Layers"] == [("sampled", "full"), ("float32",)]
    assert "input_aggregation is left out: this model has no accelerated first layer of a mean" in lines[attention]
    assert "compute_dtype is left out" not in lines["Edges"] + lines[attention]
    assert "input_aggregation is left out" not in lines["Edges"]
    assert "2 convolutions run on a3gnn's kernels" in lines["Edges"]
    assert "kernels" not in lines["Layers"]
    assert "input_aggregation is left out" not in lines["Layers"]
    assert "compute_dtype is left out" in lines["Layers"]
    built_in = Setting(Task(), tiny_folder_graph.characteristics(), machine)
    assert not list(model_lines(built_in, tiny_folder_graph, MUCH))


def test_curves_are_shared_only_where_training_repeats(package, tiny_folder_graph, hardware, make_metrics) -> None:
    curve = LearningCurve((4, 8), (0.5, 0.6), CurveEnd.BUDGET)
    for repeats in (True, False):
        setting = setting_of(package, tiny_folder_graph, hardware, repeats=repeats)
        known = StoredCurves(setting)
        metrics = dataclasses.replace(make_metrics(1.0, 2**20, 0.6), curve=curve, curve_first=4)
        known.learn(Measurement(TrainConfig(), setting, metrics, 0, 1.0, 5, "now", "id"))
        other = TrainConfig(parallel_mode="mode1", num_workers=2)
        assert known.of(TrainConfig()) == curve
        assert (known.of(other) == curve) is repeats
        assert (known.state(other) == known.state(TrainConfig())) is repeats
        lines = "\n".join(model_lines(setting, tiny_folder_graph, MUCH))
        assert ("do not share learning curves" in lines) is not repeats


@pytest.mark.parametrize("name", ["Edges", "Layers"])
def test_the_physics_knows_what_a_users_model_costs(name, package, tiny_folder_graph, hardware) -> None:
    setting = setting_of(package, tiny_folder_graph, hardware, name)
    columns = as_columns([TrainConfig(), TrainConfig(seed_fanout=2, deep_fanout=1), TrainConfig(batch_size=64)])
    found = analytic_metrics(columns, setting)
    assert found["train_seconds"][0] > max(found["train_seconds"][1:])
    assert np.isfinite(feature_matrix(columns, setting, found)).all()
    cost = setting.task.own.cost
    assert (found["peak_host_bytes"] > setting.task.own.pass_bytes).all()
    dear = dataclasses.replace(cost, node_flops=10**6 * cost.node_flops, node_bytes=10**6 * cost.node_bytes)
    own = dataclasses.replace(setting.task.own, cost=dear)
    dearer = dataclasses.replace(setting, task=dataclasses.replace(setting.task, own=own))
    more = analytic_metrics(columns, dearer)
    assert (more["train_seconds"] > 50 * found["train_seconds"]).all()
    assert (more["peak_host_bytes"] > found["peak_host_bytes"]).all()


def test_nothing_is_recommended_of_which_nothing_is_known(package, tiny_folder_graph, hardware) -> None:
    task = Task(model=package.factory("Edges"))
    with pytest.raises(UsageError, match=r"^model must be a built-in one, got .*Edges: nothing was measured of your"):
        recommend(tiny_folder_graph, task=task, hardware=hardware)


@pytest.mark.weekly  # tests/docs/test_python.py runs the tune of README.md
@pytest.mark.parametrize("name", ["Layers", "Edges"])
def test_a_whole_tune(name: str, package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    run: Callable[..., object] = lambda **more: tune(  # noqa: E731
        SPEC,
        model=package.factory(name),
        task=Task(fanouts=(5, 5)),
        budget=BUDGET_S,
        out=tmp_path / "run",
        max_accuracy_drop=100.0,
        accuracy_epochs=2,
        notify=lines.append,
        **more,
    )
    result = run()
    tuned = TunedConfig.read(tmp_path / "run")
    assert tuned == result.tuned
    assert tuned.setting.task.model == package.factory(name)
    assert tuned.measured is not None
    assert isinstance(tuned.default, Metrics)
    assert any("accuracy is computed from the whole graph at once" in line for line in lines)
    assert run(resume=True).tuned == tuned
    trained = train(tmp_path / "run", epochs=1, out=tmp_path / "trained", notify=lines.append)
    assert trained.task.is_same_model(tuned.setting.task)
    package.write("widths", "HIDDEN = 32  # changed\n")
    with pytest.raises(UsageError, match=r"first run: task\.own\.sources was '\w+' and is '\w+'; choose"):
        run(resume=True)
    train(tmp_path / "run", epochs=1, out=tmp_path / "again", notify=lines.append)
    assert any("or one of its imports has changed since the tune" in line for line in lines)
