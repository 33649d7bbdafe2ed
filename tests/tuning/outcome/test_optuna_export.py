"""A tune as an Optuna study, read back by Optuna itself."""

import json
import shutil
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from wsgiref.util import setup_testing_defaults

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from a3gnn.config import TrainConfig
from a3gnn.errors import StoreError, UsageError
from a3gnn.tuning.outcome.kept_tune import KeptTune
from a3gnn.tuning.outcome.optuna_export import Exported, export_to_optuna
from tests.tuning.outcome.conftest import KEPT

Kept = Callable[[str], Path]
Made = Callable[[str], tuple[Path, Exported]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/optuna.db"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Returns the folder of the kept tune of a name, and its export, which takes seconds."""

    @cache
    def made(name: str) -> tuple[Path, Exported]:
        folder = Path(shutil.copytree(KEPT / name, tmp_path_factory.mktemp("exported") / name))
        return folder, export_to_optuna(folder, f"sqlite:///{folder.parent}/optuna.db")

    return made


def load(url: str, name: str) -> optuna.Study:
    return optuna.load_study(study_name=name, storage=url)


def config_of(trial: optuna.trial.FrozenTrial) -> TrainConfig:
    return TrainConfig(**{name: None if value == "task" else value for name, value in trial.params.items()})


@pytest.mark.parametrize("name", ["memory", "time"])
def test_every_trial_is_there_with_its_figures(exported: Made, name: str) -> None:
    folder, found = exported(name)
    tune, study = KeptTune.read(folder), load(found.url, found.study_name)
    assert found.study_name == f"{tune.setting.graph.name} {name}"
    assert len(study.trials) == len(tune.history.trials) == found.complete + found.pruned + found.failed
    speed = "seconds_to_accuracy" if name == "time" else "throughput_epochs_per_s"
    assert study.metric_names == [speed, "peak_host_bytes", "validation_accuracy"]
    assert [str(one.name) for one in study.directions][1:] == ["MINIMIZE", "MAXIMIZE"]
    for trial, row in zip(tune.history.trials, study.trials, strict=True):
        figures = tune.history.figures(trial)
        assert config_of(row) == trial.measurement.config
        assert row.intermediate_values == dict(
            zip(trial.metrics.curve.batches, trial.metrics.curve.val_accuracy, strict=True)
        )
        assert row.duration.total_seconds() == pytest.approx(trial.measurement.seconds, abs=1e-3)
        assert row.datetime_start.astimezone(UTC) == datetime.fromisoformat(trial.measurement.created)
        kept_limits = not tune.history.objectives.limits.broken_by(figures)
        assert all(value <= 0 for value in row.constraints.values()) == kept_limits
        assert row.user_attrs["throughput_epochs_per_s"] == figures.throughput_epochs_per_s
        assert row.user_attrs["reason"] == trial.reason
        if row.state is TrialState.COMPLETE:
            assert row.values == [getattr(figures, speed), figures.peak_host_bytes, figures.val_accuracy]
        else:
            assert row.state is TrialState.PRUNED
            assert row.user_attrs["pruned"]


def test_optuna_finds_the_front_that_the_tune_has(exported: Made) -> None:
    from a3gnn.tuning.study.measured_front import measured_front

    folder, found = exported("memory")
    study = load(found.url, found.study_name)
    front = measured_front(KeptTune.read(folder).history)
    assert {config_of(trial) for trial in study.best_trials} == {row.config for row in front.rows if row.on_front}


def test_knobs_have_their_scales(exported: Made) -> None:
    _, found = exported("memory")
    study = load(found.url, found.study_name)
    known = study.trials[0].distributions
    assert known["num_partitions"] == IntDistribution(1, 8, log=True)
    assert known["parallel_mode"] == CategoricalDistribution(["sequential", "mode1", "mode2"])
    assert isinstance(known["bias_rate"], FloatDistribution)
    assert known["seed_fanout"].choices == ("task",)
    assert all(trial.distributions == known for trial in study.trials)


def test_failures_are_kept_with_their_reason(kept: Kept, url: str) -> None:
    found = export_to_optuna(kept("unfinished"), url, study_name="mine")
    assert (found.failed, found.complete + found.pruned) == (1, 1)
    failed = load(url, "mine").trials[0]
    assert (failed.state, failed.user_attrs["failure"]) == (TrialState.FAIL, "out_of_memory")
    assert failed.user_attrs["failure_detail"]
    assert load(url, "mine").user_attrs["finished"] is False


def test_what_the_play_off_found_is_an_attribute(exported: Made) -> None:
    folder, found = exported("memory")
    tune, study = KeptTune.read(folder), load(found.url, found.study_name)
    again = {trial.number: trial.user_attrs["play_off"] for trial in study.trials if "play_off" in trial.user_attrs}
    assert len(again) == len(tune.played_off) == 4
    chosen = next(found for found in again.values() if "chosen" in found["labels"])
    assert chosen["throughput_epochs_per_s"] == tune.tuned.measured.throughput_epochs_per_s


def test_a_study_of_that_name_is_refused_unless_an_export_is_to_be_replaced(kept: Kept, url: str) -> None:
    folder = kept("memory")
    export_to_optuna(kept("unfinished"), url, study_name="mine")
    with pytest.raises(UsageError, match=r"already, of the tune in .*replace=True"):
        export_to_optuna(folder, url, study_name="mine")
    export_to_optuna(folder, url, study_name="mine", replace=True)
    assert len(load(url, "mine").trials) == 13
    theirs = optuna.create_study(study_name="theirs", storage=url)
    theirs.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    with pytest.raises(UsageError, match="no export of a3gnn"):
        export_to_optuna(folder, url, study_name="theirs", replace=True)
    assert len(load(url, "theirs").trials) == 1


@pytest.mark.parametrize("place", ["optuna.db", "nothing://here", "postgresql+nodriver://here/x"])
def test_a_place_that_is_no_database_is_refused(kept: Kept, place: str) -> None:
    with pytest.raises(UsageError, match="must be the SQLAlchemy URL"):
        export_to_optuna(kept("memory"), place)


def test_a_database_that_cant_be_opened_is_said(kept: Kept, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="can't be opened or written"):
        export_to_optuna(kept("memory"), f"sqlite:///{tmp_path}/nowhere/optuna.db")


def test_optuna_dashboard_shows_it(exported: Made) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dashboard = pytest.importorskip("optuna_dashboard", reason="optuna-dashboard is not installed")
    _, found = exported("time")
    app = dashboard.wsgi(optuna.storages.RDBStorage(found.url))

    def get(path: str) -> dict[str, object]:
        asked: dict[str, object] = {}
        setup_testing_defaults(asked)
        asked["PATH_INFO"] = path
        said: list[str] = []
        body = b"".join(app(asked, lambda status, headers, error=None: said.append(status)))
        assert said == ["200 OK"]
        return json.loads(body)

    (summary,) = get("/api/studies")["study_summaries"]
    study = get(f"/api/studies/{summary['study_id']}")
    assert study["objective_names"] == ["seconds_to_accuracy", "peak_host_bytes", "validation_accuracy"]
    assert study["directions"] == ["minimize", "minimize", "maximize"]
    assert study["has_intermediate_values"]
    trials = study["trials"]
    assert {trial["state"] for trial in trials} == {"Complete", "Pruned"}
    assert {len(trial["constraints"]) for trial in trials} == {1}
