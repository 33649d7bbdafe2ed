"""What the views of a study hold, against what the functions say that the command line prints from."""

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.measurement import METRICS, Metrics
from a3gnn.page.stored_study import StoredStudy
from a3gnn.page.summary import DISTURBED, SINGLE, UNPROVEN, _may_help, _memory
from a3gnn.page.views import study_views
from a3gnn.profiling.request import TrialRequest
from a3gnn.report.front import Front, front_cells
from a3gnn.report.rows import REJECTED
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.kept_tune import KeptTune, candidates, latest_seconds
from a3gnn.tuning.outcome.result import unfinished_front
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.tuning.study.folder import Journal
from tests.tuning.study.test_drift import PARTS, Machine


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def cells(views: dict) -> Counter:
    """The texts of the rows, in the order of the columns of `a3gnn front --all`, but for what a row is."""
    names = ("throughput", "seconds", "memory", "quality")
    rows = [row for row in views["rows"] if not row["failure"]]
    return Counter((*(row["text"][name] for name in names), row["describe"]) for row in rows)


def no_gain(folder: Path, **changed: object) -> None:
    """Has the study in `folder` keep the baseline, because its choice had no measurable gain."""
    path = folder / "tuned.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    lost = {"config": fields["config"], "against_default": fields["against_default"] | changed}
    baseline = TrainConfig().canonical().to_dict()
    path.write_text(
        json.dumps(fields | {"config": baseline, "against_default": None, "no_gain": lost}), encoding="utf-8"
    )


@pytest.fixture
def views(finished: Path) -> dict:
    return study_views(finished)


def test_rows_say_what_the_table_of_the_front_says(views: dict, finished: Path) -> None:
    table = front_cells(Front.read(finished), everything=True)
    assert views["status"] == "finished"
    assert table.headings[1:5] == ("epochs/s", "seconds to 76.50%", "memory", "validation accuracy")
    assert cells(views) == Counter(row[1:6] for row in table.rows)
    assert sum(row["on_front"] for row in views["rows"]) == sum(row.on_front for row in Front.read(finished).rows)


def test_the_choice_is_that_of_tuned_json(views: dict, finished: Path) -> None:
    tuned = TunedConfig.read(finished)
    best = views["rows"][views["best"]]
    assert best["config"] == tuned.config.to_dict()
    assert "chosen" in best["labels"]
    assert views["rows"][views["default"]]["describe"] == "as the baseline"
    against = dict(tuned.against_default)
    gains = {one["name"]: one for one in views["summary"]["gains"]}
    again = Comparison.from_dict(against)
    for name, spread in (("throughput", again.throughput_again), ("time", again.time_again)):
        assert spread is not None
        assert [gains[name][key] for key in ("median", "low", "high")] == list(spread[:3])
    assert gains["throughput"]["low"] < 1 < against["throughput"]["low"]  # one more training may show no gain
    assert (gains["throughput"]["verdict"], gains["throughput"]["badges"]) == ("better", ["4 of 5 runs"])
    assert gains["accuracy"]["median"] == against["accuracy"]["median"]
    assert sorted(change["name"] for change in views["summary"]["changes"]) == sorted(
        name for name, value in best["config"].items() if value != TrainConfig().canonical().to_dict()[name]
    )
    printed = [tuple(change) for change in views["summary"]["answer"]["changed"]]  # one list, in one order
    assert [tuple(change.values()) for change in views["summary"]["changes"]] == printed
    assert views["tuned"] == tuned.to_dict()


def test_a_choice_without_a_measurable_gain_changes_no_knob_and_claims_nothing(finished: Path) -> None:
    no_gain(finished, disturbed=0.6, time={"median": 1.2, "low": 0.9, "high": 1.4, "repeats": 8})
    summary = study_views(finished)["summary"]
    assert summary["changes"] == []
    assert {one["verdict"] for one in summary["gains"]} == {"unclear"}
    badges = {one["name"]: one["badges"] for one in summary["gains"]}
    assert badges["time"] == [UNPROVEN, "4 of 5 runs", DISTURBED]
    assert badges["throughput"] == ["4 of 5 runs", DISTURBED]


def test_memory_that_stays_is_neither_better_nor_worse() -> None:
    for ratio, most in ((1.0, None), (1.004, None), (0.996, None), (0.997, 0.999), (1.002, 1.01)):
        gain = _memory(ratio, most)
        assert (gain["text"], gain["verdict"], gain["badges"]) == ("0%", "unclear", [])
    assert [_memory(ratio, None)["verdict"] for ratio in (0.5, 2.0)] == ["better", "worse"]


def test_a_change_that_can_not_help_is_not_named(finished: Path) -> None:
    measured = StoredStudy.read(finished).measured
    nodes = measured.history.study.setting.graph.num_train
    assert _may_help(measured, "batch_size", 64, nodes) != _may_help(measured, "batch_size", 64, nodes + 1)
    rows = measured.rows
    larger = [i for i, row in rows.items() if row.config.batch_size > 64]
    measured.rows = {i: replace(row, feasible=i not in larger) for i, row in rows.items()}
    assert larger
    assert not _may_help(measured, "batch_size", 64, 128)  # all trials with larger batches missed
    measured.rows = {i: replace(row, feasible=i == larger[0]) for i, row in rows.items()}
    assert _may_help(measured, "batch_size", 64, 128)
    untried = {i: row for i, row in rows.items() if row.config.batch_size == 64}
    measured.rows = untried
    assert _may_help(measured, "batch_size", 64, 128)
    named = [one["words"] for step in study_views(finished)["steps"]["helps"] for one in step["knobs"]]
    assert named


def test_a_running_tune_is_shown_so_far_and_its_files_stay_as_they_are(running: Path) -> None:
    before = files(running)
    views = study_views(running)
    assert files(running) == before
    assert views["status"] == "unfinished"
    assert [row["name"] for row in views["rows"]] == ["baseline", *(f"trial {n}" for n in range(1, 12))]
    assert cells(views) == Counter(row[1:6] for row in front_cells(unfinished_front(running), everything=True).rows)
    best = StoredStudy.read(running).measured.history.best()
    assert views["rows"][views["best"]]["config"] == best.trial.measurement.config.to_dict()
    assert views["time"]["left"] == "3 min 20 s left"
    gains = views["summary"]["gains"]
    assert gains[0]["name"] == "throughput"
    assert all(SINGLE in one["badges"] for one in gains if one["name"] != "memory")


def test_before_the_first_trial_there_is_what_was_asked(running: Path) -> None:
    (running / "probes.jsonl").unlink()
    for _ in range(2):
        views = study_views(running)
        assert views["rows"] == []
        assert views["objectives"] is None
        assert ["budget", "5 min"] in views["asked"]
        assert set(views) == set(study_views(Path(__file__).parent / "real_tune"))
        (running / "probes.jsonl").write_text('{"reason": "def', encoding="utf-8")


def test_a_folder_without_a_tune_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no request"):
        study_views(tmp_path)


def test_views_are_json_without_numbers_that_json_lacks(views: dict) -> None:
    assert json.loads(json.dumps(views, allow_nan=False)) == json.loads(json.dumps(views))


def test_failures_say_why(failed: Path) -> None:
    views = study_views(failed)
    row = views["rows"][4]
    assert row["failure"]["said"] == "out of memory: </script><b>passed the limit"
    assert row["failure"]["detail"].startswith("a traceback\n")
    assert "figures" not in row
    assert views["time"]["failures"] == 1
    assert all(one["index"] != 4 for one in views["steps"]["trials"])


def test_the_regret_falls_to_nothing_at_the_best_trial(views: dict) -> None:
    regrets = [one["regret"] for one in views["regret"]]
    assert len(regrets) == len(views["rows"])
    assert regrets[0] > 0
    assert regrets[-1] == 0
    assert all(later <= earlier for earlier, later in pairwise(regrets))
    assert all(one["best"] <= one["index"] for one in views["regret"])


def test_curves_end_where_the_trials_pace_takes_them(views: dict, finished: Path) -> None:
    measured = StoredStudy.read(finished).measured
    for index, one in measured.judged.items():
        curve = views["rows"][index]["curve"]
        known = max(measured.history.curve(one.trial.measurement.config), one.metrics.curve, key=lambda c: c.trained)
        assert curve["seconds"][-1] == pytest.approx(one.metrics.pace.seconds(known.trained))
        assert max(curve["shown"]) == pytest.approx(100 * max(known.val_accuracy))


def test_the_parts_of_a_step_add_up_to_what_was_measured(views: dict, finished: Path) -> None:
    trials = Journal(finished).read(mend=False)
    again = {views["default"], views["best"]}  # of which the verification's stages are shown
    for one in views["steps"]["trials"]:
        if one["index"] not in again:
            stages = trials[one["index"]].metrics.stage_seconds
            assert one["seconds"][:3] == [stages.sample, stages.gather, stages.transfer]
            assert sum(one["seconds"][3:]) == pytest.approx(stages.train)
        assert min(one["seconds"]) >= 0


def test_what_would_help_is_no_value_that_the_trial_has(views: dict) -> None:
    helps = views["steps"]["helps"]
    assert [one["index"] for one in helps] == [views["default"], views["best"]]
    named = [(views["rows"][one["index"]], knob) for one in helps for knob in one["knobs"]]
    assert named
    for row, knob in named:
        assert knob["gain"] >= 1.05
        assert knob["words"] not in row["describe"]


def test_knobs_differ_where_trials_have_several_values(views: dict) -> None:
    for knob in views["knobs"]:
        found = {json.dumps(row["config"][knob["name"]]) for row in views["rows"]}
        assert {json.dumps(value) for value in knob["values"]} == found
        assert len(knob["texts"]) == len(found)
        assert knob["differs"] == (len(found) > 1)
    assert {"seed_fanout", "batch_size"} <= {knob["name"] for knob in views["knobs"] if knob["differs"]}


def test_without_a_kept_front_that_of_the_trials_is_shown(
    views: dict,
) -> None:
    front = views["predicted_front"]["points"]
    assert 1 < len(front) < len(views["rows"])
    points = [
        (-one["throughput_epochs_per_s"]["mean"], one["peak_host_bytes"]["mean"], -one["val_accuracy"]["mean"])
        for one in front
    ]
    for point in points:
        assert not any(other != point and all(a <= b for a, b in zip(other, point, strict=True)) for other in points)


def test_the_front_that_the_last_search_predicted_is_shown(quick_tune) -> None:
    result = quick_tune(priority="throughput", engine="ei")
    front = study_views(result.folder)["predicted_front"]
    kept = json.loads((result.folder / "predicted_front.json").read_text(encoding="utf-8"))
    assert front == {"name": "predicted front of the last search", "points": kept}
    importance = study_views(result.folder)["importance"]
    assert {"num_partitions", "feature_tier"} <= {one["name"] for one in importance["knobs"]}
    assert all(one["speed"] >= 1 and one["memory"] >= 1 and one["accuracy"] >= 0 for one in importance["knobs"])
    speeds = [one["throughput_epochs_per_s"]["mean"] for one in kept]
    assert speeds == sorted(speeds, reverse=True)
    assert set(kept[0]) == set(METRICS)


def test_a_tune_by_an_earlier_version_is_shown() -> None:
    views = study_views(Path(__file__).parents[1] / "tuning" / "old_folder")
    assert [row["name"] for row in views["rows"]] == ["baseline", "baseline 2"]
    assert views["rows"][0]["failure"]["kind"] == "out_of_memory"
    assert views["best"] == 1
    assert views["default"] is None


def test_where_every_trial_failed_there_is_nothing_to_pick_from(failed: Path) -> None:
    lines = (failed / "probes.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for name in ("tuned.json", "front.json", "state.json"):
        (failed / name).unlink()
    (failed / "probes.jsonl").write_text(lines[4], encoding="utf-8")
    views = study_views(failed)
    assert views["rows"][0]["failure"] is not None
    assert views["law"]["candidates"] == []
    assert views["best"] is views["default"] is views["tuned"] is None
    json.dumps(views, allow_nan=False)


def test_the_seconds_that_each_is_judged_within_are_those_of_the_play_off(quick_tune, formulas, tmp_path: Path) -> None:
    executor = formulas(Machine(after=2).run)
    result = quick_tune(**PARTS, executor=executor)
    history = StoredStudy.read(tmp_path / "run").measured.history
    seconds = {one.plan.curve.most_seconds for one in executor.whole}
    assert seconds == {history.reference.budget_s / history.drift} != {history.reference.budget_s}
    assert {study_views(tmp_path / "run")["objectives"]["default_budget_s"]} == seconds
    assert {result.tuned.default_budget_s} == seconds


def test_a_folder_without_timings_means_what_it_did(finished: Path, running: Path) -> None:
    for folder in (finished, running):
        reference = StoredStudy.read(folder).measured.history.reference
        assert study_views(folder)["objectives"]["default_budget_s"] == reference.budget_s


def test_a_default_that_was_tried_three_times_gains_nothing_over_itself(quick_tune, formulas) -> None:
    def slow(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        own = request.config == TrainConfig().canonical()
        return metrics if own else replace(metrics, throughput_epochs_per_s=0.1, throughput_replicates=(0.1, 0.1))

    options = {"memory_limit": "default", "priority": "throughput", "budget": 1}
    views = study_views(quick_tune(executor=formulas(slow), **options).folder)
    default = views["rows"][views["default"]]["config"]
    assert sum(row["config"] == default for row in views["rows"]) > 1
    assert views["rows"][views["best"]]["config"] == default
    assert views["summary"]["gains"] == views["summary"]["changes"] == []
    assert [line[2] for line in views["summary"]["answer"]["table"]] == [""] * len(views["summary"]["answer"]["table"])


def test_a_default_that_the_play_off_refused_is_no_limit(finished: Path) -> None:
    path = finished / "front.json"
    front = json.loads(path.read_text(encoding="utf-8"))
    row = next(row for row in front["rows"] if "default" in row["labels"])
    assert study_views(finished)["law"]["reference"] is not None
    tune = KeptTune.read(finished)
    assert latest_seconds(tune, tune.history, candidates(tune, tune.history)) is not None
    row["note"] = f"{REJECTED}: out of memory"
    path.write_text(json.dumps(front), encoding="utf-8")
    assert study_views(finished)["law"]["reference"] is None
    tune = KeptTune.read(finished)
    assert latest_seconds(tune, tune.history, candidates(tune, tune.history)) is None


def test_a_default_that_misses_the_tunes_own_limit_may_keep_those_asked_for(running: Path) -> None:
    path = running / "request.json"
    request = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(request | {"memory_limit": 2**21}), encoding="utf-8")
    law = study_views(running)["law"]
    assert law["reference"] is not None
