"""Cache policies of older versions: their names load as the nearest one of today, with one line; their keys stay."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a3gnn.config import CACHE_POLICIES, KNOBS, TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.graphs.graph import Graph
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.loader.loader import Loader
from a3gnn.measurement import Measurement
from a3gnn.profiling.known import StoredCurves
from a3gnn.profiling.store.check import check_file, check_store, import_rows
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.service.jobs.home import JobFolder, Places
from a3gnn.service.jobs.job_process import _listener
from a3gnn.space import SearchSpace
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.arguments import make_request
from a3gnn.tuning.study.study import TuneRequest
from a3gnn.tuning.study.trial import Trial

#: The old names; the nearest of today; the bias that applies where 4 was stored; and `TrainConfig.key` of the version
#: that had them, of batch_size 64, cache_bytes 1000 and bias_rate 4.
OLD = [
    ("lru", "clock", 4.0, "c2be5642904d974d"),
    ("lfu", "access", 1.0, "97775535cdb3764d"),
    ("presample", "access", 4.0, "f675c197ee2958a9"),
    ("auto", "access", 1.0, "77bedd22f9e37b8b"),
]
FIELDS = TrainConfig(batch_size=64, cache_bytes=1000, bias_rate=4.0).to_dict()
each_old = pytest.mark.parametrize(("old", "near", "bias", "key"), OLD, ids=[row[0] for row in OLD])


def stored(row: Measurement, old: str) -> dict[str, Any]:
    """Returns `row` as a version wrote it that ran the policy `old`; configurations of measurements are canonical."""
    bias = 4.0 if old == "presample" else 1.0
    fields = row.to_dict() | {"id": "", "config": FIELDS | {"cache_policy": old, "bias_rate": bias}}
    return json.loads(json.dumps(fields))


@pytest.fixture
def row(measurement: Callable[..., Measurement]) -> Measurement:
    return measurement(TrainConfig(batch_size=64, cache_bytes=1000))


def line(old: str) -> str:
    return f"cache_policy {old} no longer exists"


@each_old
def test_a_configuration_loads_with_the_nearest_policy_and_one_line(old, near, bias, key):
    with pytest.warns(UserWarning, match=f"{line(old)}; {near}, the nearest, is used") as told:
        config = TrainConfig.from_dict(FIELDS | {"cache_policy": old})
    assert len(told) == 1
    assert (config.cache_policy, config.bias_rate) == (near, bias)
    assert ("with bias_rate 1" in str(told[0].message)) == (old in ("lfu", "auto"))
    assert TrainConfig.from_dict(config.to_dict()) == config
    assert config.key() != key
    with pytest.warns(UserWarning, match=line(old)):
        assert TrainConfig(**FIELDS | {"cache_policy": old}) == config


@each_old
def test_a_fixed_knob_is_the_nearest_policy(old, near, bias, key):
    given: dict[str, Any] = {"priority": "time", "memory_limit": "baseline", "host_memory_limit": None, "budget": 3}
    given |= {"max_accuracy_drop": 0.5, "engine": "ppo"}
    for bias_rate in (None, 4.0):
        fix = {"cache_policy": old, "cache_bytes": 1000} | ({} if bias_rate is None else {"bias_rate": bias_rate})
        with pytest.warns(UserWarning, match=line(old)) as told:
            request = make_request(**given, task=None, fix=fix, ranges=None)
        assert len(told) == 1
        unbiased = old in ("lfu", "auto")
        assert dict(request.fixed).get("bias_rate") == (1.0 if unbiased else bias_rate)
        assert dict(request.fixed)["cache_policy"] == near
        before = request.to_dict() | {"fixed": [list(pair) for pair in fix.items()]}
        with pytest.warns(UserWarning, match=line(old)):
            assert TuneRequest.from_dict(before) == request  # the request.json of an older tune
        assert TuneRequest.from_dict(request.to_dict()) == request


@each_old
def test_a_tuned_file_loads(old, near, bias, key, write_tuned):
    path = write_tuned(config=TrainConfig(**FIELDS))
    fields = json.loads(path.read_text())
    fields["config"]["cache_policy"] = old
    path.write_text(json.dumps(fields))
    with pytest.warns(UserWarning, match=line(old)) as told:
        tuned = TunedConfig.read(path)
    assert len(told) == 1
    assert (tuned.config.cache_policy, tuned.config.bias_rate) == (near, bias)


@each_old
def test_a_row_of_a_history_loads_and_is_written_as_it_was(old, near, bias, key, row):
    fields = {"reason": "best", "predicted": {}, "measurement": stored(row, old), "drift": 1.0}
    with pytest.warns(UserWarning, match=line(old)):
        trial = Trial.from_dict(fields)
    found = trial.measurement
    assert (found.config.cache_policy, found.config_key) == (near, key)
    assert found.metrics == row.metrics
    assert found.to_dict()["config"] == fields["measurement"]["config"]
    with pytest.warns(UserWarning, match=line(old)):
        assert Trial.from_dict(json.loads(json.dumps(trial.to_dict()))) == trial


@each_old
@pytest.mark.filterwarnings("ignore:cache_policy")
def test_a_store_keeps_the_key_of_a_row_and_never_serves_it_as_todays_policy(old, near, bias, key, row, tmp_path):
    file, place = tmp_path / "old.jsonl", tmp_path / "profiles.db"
    file.write_text(json.dumps(stored(row, old)) + "\n")
    assert import_rows(file, str(place)) == (1, 1)
    assert import_rows(file, str(place)) == (0, 1)
    with ProfileStore.open(place) as store:
        assert not check_store(store).faults
        (raw,) = store.raw_rows()
        assert key in raw.values()
        assert json.loads(raw["payload"])["config"]["cache_policy"] == old
        (found,) = store.rows()
        assert found.config.cache_policy == near
        assert store.get(found.config, found.setting, found.accuracy_budget) is None
        store.remove(found)
        assert store.rows() == []
    assert not check_file(file).faults


@pytest.mark.filterwarnings("ignore:cache_policy")
def test_a_curve_that_was_learned_from_other_draws_is_not_taken_over(row, make_metrics):
    """Draws towards a presampled cache differ from those towards today's; uniform draws do not."""
    curve = LearningCurve((8, 16), (0.5, 0.6), CurveEnd.SLOWER)
    fields = stored(row, "presample")
    fields["metrics"] |= {"curve": curve.to_dict(), "curve_first": 8}
    for bias, trained in ((4.0, 0), (1.0, 16)):
        found = Measurement.from_dict(fields | {"config": fields["config"] | {"bias_rate": bias}})
        curves = StoredCurves(found.setting)
        curves.learn(found)
        assert curves.of(found.config).trained == trained


def test_a_loader_takes_old_names(tiny_graph: Graph):
    with pytest.warns(UserWarning, match=line("lfu")):
        loader = Loader(tiny_graph, [3, 2], batch_size=32, config={"cache_bytes": 4000, "cache_policy": "lfu"})
    assert len(list(loader)) > 1


@each_old
def test_a_space_is_fixed_at_the_nearest_policy(old, near, bias, key):
    with pytest.warns(UserWarning, match=line(old)):
        space = SearchSpace(KNOBS).fix("cache_policy", old)
    assert space.knob("cache_policy").values == (near,)
    assert (space.knob("bias_rate").values == (1.0,)) == (old in ("lfu", "auto"))


def test_a_space_lists_policies_of_today_alone(tiny_graph: Graph):
    with pytest.raises(ConfigError, match="cache_policy"):
        SearchSpace.from_dict({"cache_policy": ("degree", "lru")})
    assert set(CACHE_POLICIES) == {"degree", "access", "fifo", "clock", "ahead"}


def test_a_command_prints_the_line_once(row, tmp_path: Path):
    file = tmp_path / "old.jsonl"
    rows = [stored(row, "lfu") | {"accuracy_budget": budget} for budget in range(3)]
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))
    run = subprocess.run(
        [sys.executable, "-m", "a3gnn", "profiles", "check", str(file)], capture_output=True, text=True, check=True
    )
    lines = [one for one in run.stderr.splitlines() if "cache_policy" in one]
    assert lines == ["cache_policy lfu no longer exists; access, the nearest, is used with bias_rate 1"]


def test_a_job_of_the_service_logs_the_line(tmp_path: Path):
    folder = JobFolder(tmp_path, Places(()))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        _listener(folder)
        TrainConfig(cache_policy="auto")  # type: ignore[arg-type]
    assert line("auto") in (tmp_path / "events.jsonl").read_text()
