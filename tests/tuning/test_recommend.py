"""What is recommended without a trial, by the surrogate of a part of the shipped profiles."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3gnn import TrainConfig, train
from a3gnn.errors import ExitCode, InfeasibleError, StoreError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.limits import FEASIBLE
from a3gnn.measurement import Measurement
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning import recommend as module
from a3gnn.tuning.beliefs import kept_surrogate
from a3gnn.tuning.beliefs.outlook import Outlook
from a3gnn.tuning.beliefs.recommendation import Interval, Recommendation
from a3gnn.tuning.engines.predicted_best import WORTH
from a3gnn.tuning.recommend import recommend
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.study import Study
from a3gnn.tuning.tell.recommendation_lines import recommendation_lines
from a3gnn.units import parse_size
from tests.shipped import shipped
from tests.tuning.formulas import SMALL_SPACE, MiB

TASK = Task(hidden_channels=16, fanouts=(3, 3))
#: All rows of three graphs.
_ROWS = 45

Recommend = Callable[..., Recommendation]


@pytest.fixture(scope="module")
def part() -> list[Measurement]:
    return shipped(_ROWS)


@pytest.fixture
def quick(
    tiny_graph: Graph,
    hardware: Hardware,
    part: list[Measurement],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Recommend:
    """Recommends for the tiny graph, or another, from a part of the shipped profiles."""
    monkeypatch.setattr(module, "shipped_measurements", lambda typed: part)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))  # where there is no store

    def run(graph: Graph = tiny_graph, **options: Any) -> Recommendation:
        return recommend(graph, **{"task": TASK, "hardware": hardware} | options)

    return run


def fitted(found: Recommendation, part: list[Measurement]) -> Outlook:
    """Returns the predictions that `found` stands on."""
    study = dataclasses.replace(Study.of(found.request, found.setting), corpus=tuple(part))
    history = History(study)
    return Outlook.of(history, kept_surrogate.kept_surrogate(history, lambda line: None))


def turned(config: TrainConfig) -> int:
    """Returns how many knobs of `config` are not as the default has them."""
    return sum(config.to_dict()[name] != value for name, value in TrainConfig().to_dict().items())


@pytest.mark.parametrize("priority", ["throughput", "time", "memory", "accuracy"])
def test_it_is_the_simplest_of_the_best_of_all_that_probably_keep_the_limits(
    quick: Recommend, part: list[Measurement], priority: str
) -> None:
    left = ("input_aggregation", "feature_dtype", "seed_fanout")
    fix = {name: value for name, value in SMALL_SPACE.items() if name not in left}
    found = quick(priority=priority, fix=fix, max_accuracy_drop=3.0)
    outlook = fitted(found, part)
    space, limits = outlook.space, outlook.objectives.limits
    rows = space.enumerate()
    assert len(rows) > 150
    prediction = outlook.predict(space.columns(rows))
    assert limits.least_accuracy == pytest.approx(0.5 - 0.03)
    configs = [space.decode(row).canonical() for row in rows]
    default = configs.index(TrainConfig())
    probability = outlook.keeping(prediction)["least_accuracy"]
    probability[default] = 1.0
    probable = probability >= FEASIBLE
    score = outlook.objectives.score(prediction)
    own, best = configs.index(found.config), np.flatnonzero(probable)[score[probable].argmax()]
    assert probable[own]
    assert score[own] >= score[best] - WORTH
    assert probability[own] >= probability[best] - WORTH
    assert probable.sum() > 1
    assert turned(found.config) <= turned(configs[best])
    for name in found.config.to_dict():
        simpler = found.config.replace(**{name: getattr(TrainConfig(), name)}).canonical()
        if simpler in configs and simpler != found.config:
            back = configs.index(simpler)
            as_probable = probable[back] and probability[back] >= probability[best] - WORTH
            assert not (as_probable and score[back] >= score[best] - WORTH), f"{name} is turned for nothing"


def test_every_ratio_of_speed_is_larger_where_it_is_better(quick: Recommend) -> None:
    found = quick(fix={"parallel_mode": "mode1"}, max_accuracy_drop=20.0, memory_limit="1GiB")
    for seconds, said in (
        ((0.388, 0.093, 1.62), "2.58x sooner (0.617 to 10.8)"),
        ((2.0, 1.0, 4.0), "0.5x as fast (0.25 to 1)"),
    ):
        best = dataclasses.replace(found.best, seconds_over_default=Interval(*seconds))
        told = "\n".join(recommendation_lines(dataclasses.replace(found, best=best)))
        assert re.search(rf"^time to accuracy +{re.escape(said)} +1x$", told, re.M)
        assert f" {seconds[0]:.3g} (" not in told
    assert found.best.seconds_over_default.to_dict() == found.to_dict()["predicted"]["seconds_over_default"]
    ratio = found.best.throughput_over_default
    assert f"over the baseline     {ratio.mean:.3g}x ({ratio.low:.3g} to {ratio.high:.3g})" in told
    assert "unknown" not in told.split("Uncertain")[0]


def test_the_default_is_shown_beside_it(quick: Recommend) -> None:
    found = quick(fix={"parallel_mode": "mode1"}, max_accuracy_drop=20.0, memory_limit="1GiB")
    assert found.default.config == TrainConfig()
    assert found.default.throughput_over_default == (1, 1, 1)
    assert found.default.accuracy_beside_default == (0, 0, 0)
    assert found.default.keeps["least_accuracy"] == 1
    assert found.config != TrainConfig()
    for figure in (found.best.throughput_epochs_per_s, found.best.throughput_over_default, found.best.peak_host_bytes):
        assert 0 < figure.low < figure.mean < figure.high
    wide, ratio = found.best.throughput_epochs_per_s, found.best.throughput_over_default
    assert ratio.mean == pytest.approx(wide.mean / found.default.throughput_epochs_per_s.mean)
    separate = wide.over(found.default.throughput_epochs_per_s)
    assert ratio.high / ratio.low < separate.high / separate.low
    assert found.best.peak_device_bytes is None
    assert set(found.best.keeps) == {"host_bytes", "least_accuracy"}
    assert found.best.keeps["host_bytes"] >= FEASIBLE


def test_the_same_is_recommended_again(quick: Recommend) -> None:
    assert quick().to_dict() == quick().to_dict()


def test_fixed_and_restricted_knobs_are_kept(quick: Recommend) -> None:
    found = quick(fix={"parallel_mode": "mode1"}, ranges={"batch_size": (64, 128)}, max_accuracy_drop=50.0)
    assert found.config.parallel_mode == "mode1"
    assert 64 <= found.config.batch_size <= 128


def test_a_limit_out_of_reach_names_one_that_is_not(quick: Recommend, hardware: Hardware) -> None:
    limit = hardware.profile.idle_host_bytes + MiB
    with pytest.raises(InfeasibleError, match="nothing is predicted to keep the memory limit") as caught:
        quick(memory_limit=limit)
    assert caught.value.exit_code == ExitCode.INFEASIBLE
    said = str(caught.value)
    assert "with a probability of 0." in said
    needed = parse_size(said.partition(" memory_limit='")[2].partition("'")[0])
    assert needed > limit
    assert quick(memory_limit=needed, max_accuracy_drop=100.0).best.keeps["host_bytes"] >= FEASIBLE


def test_a_limit_below_an_idle_process_is_refused(quick: Recommend) -> None:
    with pytest.raises(InfeasibleError, match=r"before it trains anything, got 30\.0 MiB"):
        quick(memory_limit="30MiB")


def test_an_accuracy_out_of_reach_names_a_drop_that_is_not(quick: Recommend) -> None:
    eight = {"num_partitions": 8, "batch_size": 64}
    with pytest.raises(InfeasibleError, match="is predicted to lose at most 0 points") as caught:
        quick(fix=eight, max_accuracy_drop=0.0)
    needed = float(str(caught.value).partition("max_accuracy_drop=")[2].split()[0])
    assert quick(fix=eight, max_accuracy_drop=needed).config.num_partitions == 8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"memory_limit": "default"}, "nothing is measured here; a3gnn tune takes it"),
        ({"memory_limit": "lots"}, "^memory_limit: "),
        ({"priority": "speed"}, "^priority must be one of"),
        ({"fix": {"batch_size": 2.5}}, "batch_size must be a whole number"),
        ({"out": 3}, "out must be a path"),
    ],
)
def test_wrong_options_are_named(quick: Recommend, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        quick(**options)


def test_a_store_is_read_and_never_made(quick: Recommend, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no profile store exists at"):
        quick(store=tmp_path / "none.db")
    assert not list(tmp_path.iterdir())


def test_what_a_store_holds_is_known(
    quick: Recommend, tmp_path: Path, tiny_graph: Graph, hardware: Hardware, measurement: Callable[..., Measurement]
) -> None:
    setting = Setting(TASK, tiny_graph.characteristics(), hardware)
    rows = [
        dataclasses.replace(measurement(TrainConfig(**changes)), setting=setting)
        for changes in ({}, {"parallel_mode": "mode1", "num_workers": 2})
    ]
    with ProfileStore.open(tmp_path / "profiles.db") as store:
        store.add_missing(rows)
    before, found = quick(), quick(store=tmp_path / "profiles.db")
    assert (before.corpus.of_graph, found.corpus.of_graph, found.corpus.on_machine) == (0, 2, 2)
    assert before.default.seconds_to_accuracy is None
    assert any("Nothing was measured of this graph" in line for line in before.unknown)
    known = rows[0].metrics
    assert known is not None
    assert found.default.seconds_to_accuracy is not None
    reached = found.default.seconds_to_accuracy
    assert reached.low <= known.pace.seconds(known.curve.first_reaching(0.79)) <= reached.high
    assert found.default.throughput_epochs_per_s.mean == pytest.approx(known.throughput_epochs_per_s, rel=0.5)
    narrow, wide = (one.default.throughput_epochs_per_s for one in (found, before))
    assert narrow.high / narrow.low < wide.high / wide.low
    assert found.unknown == ()


def test_what_is_unlike_all_that_was_measured_is_said(quick: Recommend, part: list[Measurement]) -> None:
    plain = quick().unknown
    wide = Graph.load("synthetic:nodes=300,degree=4,classes=3,features=20000,density=0.01")
    task = Task(model="gcn", hidden_channels=16, fanouts=(3, 3), norm="layer", residual=True)
    found = quick(wide, task=task).unknown
    assert not any("model gcn" in line or "residual" in line for line in plain)
    assert any("Nothing was measured with norm layer and residual connections on: what" in line for line in found)
    assert any("Nothing was measured of the model gcn, only of sage" in line for line in found)
    assert any("it has 20,000 features, they have" in line for line in found)
    assert any("Nothing was measured on this machine" in line for line in found)
    there = quick(hardware=part[0].setting.hardware).unknown
    assert not any("on this machine" in line for line in there)


def test_the_tuned_json_says_that_nothing_was_measured_and_trains(quick: Recommend, tmp_path: Path) -> None:
    found = quick(out=tmp_path / "run", memory_limit="1GiB")
    assert found.folder == tmp_path / "run"
    tuned = TunedConfig.read(tmp_path / "run")
    assert tuned == found.tuned()
    assert tuned.measured is None
    assert tuned.default is None
    assert tuned.limits.host_bytes == 2**30
    assert set(tuned.predicted) == {"throughput_epochs_per_s", "peak_host_bytes"}
    assert tuned.predicted["peak_host_bytes"]["high"] == found.best.peak_host_bytes.high
    trained = train(tmp_path / "run", epochs=1, out=tmp_path / "trained", host_memory_limit=2**36)
    assert trained.config == found.config
    with pytest.raises(UsageError, match="must be a new or empty folder"):
        quick(out=tmp_path / "run")


@pytest.mark.parametrize("priority", ["throughput", "accuracy"])
def test_lines_fit_a_terminal_and_say_that_they_are_predictions(quick: Recommend, priority: str) -> None:
    found = quick(priority=priority, memory_limit="1GiB", max_accuracy_drop=5.0)
    lines = list(recommendation_lines(found))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "without a trial" in " ".join(text.split())
    assert "measured for it" not in " ".join(text.split())  # there may be measurements of the same graph
    assert "within 1.00 GiB" in text
    assert "loses at most 5" in text
    for line in found.unknown:
        assert line in " ".join(text.split())
    assert json.loads(json.dumps(found.to_dict()))["measured"] is None


def test_a_surrogate_is_fitted_once(
    quick: Recommend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_graph: Graph
) -> None:
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "cache"))
    fits: list[int] = []
    fit = kept_surrogate.fit_surrogate
    monkeypatch.setattr(kept_surrogate, "fit_surrogate", lambda history: fits.append(1) or fit(history))
    lines: list[str] = []
    first = quick(notify=lines.append)
    assert len(fits) == 1
    (fitted,) = (line for line in lines if "fitting the surrogate to 45 measurements (" in line)
    assert fitted.endswith("kept for tunes of other graphs with seed=0)")
    lines.clear()
    assert quick(notify=lines.append, priority="time").to_dict() == first.to_dict()
    quick(priority="memory", memory_limit="1GiB")
    assert len(fits) == 1
    assert not any("fitting" in line for line in lines)
    quick(seed=1, notify=lines.append)
    assert len(fits) == 2
    assert any(line.endswith("seed=1)") for line in lines)
    folders = sorted((tmp_path / "cache" / "surrogates").iterdir())
    assert len(folders) == 2
    for folder in folders:
        (folder / "manifest.json").write_text("{}")
    assert quick(notify=lines.append).to_dict() == first.to_dict()
    assert len(fits) == 3
    assert any("it is fitted again" in line for line in lines)
    quick()
    assert len(fits) == 3


def test_other_rows_are_another_surrogate(
    quick: Recommend, part: list[Measurement], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "cache"))
    first = quick()
    metrics = part[3].metrics
    assert metrics is not None
    faster = dataclasses.replace(metrics, throughput_epochs_per_s=2 * metrics.throughput_epochs_per_s)
    changed = [*part[:3], dataclasses.replace(part[3], outcome=faster), *part[4:]]  # of the same id
    monkeypatch.setattr(module, "shipped_measurements", lambda typed: changed)
    assert quick().default.throughput_epochs_per_s != first.default.throughput_epochs_per_s
    assert len(list((tmp_path / "cache" / "surrogates").iterdir())) == 2


def test_a_cache_that_takes_nothing_is_said(quick: Recommend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "cache"))
    lines: list[str] = []
    assert quick(notify=lines.append).config
    assert any("the surrogate can't be stored in" in line for line in lines)
