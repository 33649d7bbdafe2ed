"""Tunes that go on: what counts, what must not have changed, and what a finished one answers. Without a real trial."""

import dataclasses
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import InfeasibleError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.page.stored_study import Measured
from a3gnn.profiling.request import OPENING, TrialRequest
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.storage.claim import LOCK_NAME
from a3gnn.tuning.beliefs.expectations import TrialCost
from a3gnn.tuning.outcome.kept_tune import KeptTune
from a3gnn.tuning.outcome.pick import pick
from a3gnn.tuning.outcome.result import TuneResult, unfinished_front
from a3gnn.tuning.outcome.status import TuneStatus
from a3gnn.tuning.run.blocks import reserve_s
from a3gnn.tuning.run.session import open_study
from a3gnn.tuning.study.folder import Journal, TuneState, read_request
from tests.lines import everything
from tests.tuning.formulas import SMALL_SPACE, Formulas

#: Four configurations, and an end after four trials at the latest.
PARTS = {
    "fix": SMALL_SPACE | {"parallel_mode": "sequential", "feature_tier": "ram", "partitioner": "blocks"},
    "max_accuracy_drop": 100.0,
}


@pytest.fixture
def interrupted(quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas], tmp_path: Path) -> Path:
    """The folder of a tune that Ctrl-C ended in its third trial."""
    executor = formulas(_interrupting(2))
    with pytest.raises(KeyboardInterrupt, match="resume=True goes on"):
        quick_tune(**PARTS, executor=executor)
    return tmp_path / "run"


def _interrupting(after: int) -> Callable[..., object]:
    trials = iter(range(100))

    def alter(request: object, metrics: object, before: int) -> object:
        if next(trials) == after:
            raise KeyboardInterrupt
        return metrics

    return alter


def _edit_journal(folder: Path, change: Callable[[dict], None]) -> None:
    path = folder / "probes.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line["measurement"])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_an_interrupted_tune_goes_on_and_measures_nothing_twice(quick_tune, formulas, interrupted) -> None:
    first = [trial.measurement for trial in Journal(interrupted).read()]
    assert len(first) == 2
    executor, lines = formulas(), []
    resumed = quick_tune(**PARTS, resume=True, executor=executor, notify=lines.append)
    assert any("resuming after 1 trial" in line for line in lines)
    found = [trial.measurement for trial in Journal(interrupted).read()]
    assert found[:2] == first
    assert len({measurement.config for measurement in found}) == len(found) == len(resumed.front.rows)
    assert len(executor.explored) == len(found) - 2


def test_a_tune_that_was_interrupted_in_its_verification_verifies_again(quick_tune, formulas, tmp_path: Path) -> None:
    def stops(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if request.plan.curve is not None and request.plan.curve.whole:
            raise KeyboardInterrupt
        return metrics

    first = formulas(stops)
    with pytest.raises(KeyboardInterrupt, match="resume=True goes on"):
        quick_tune(**PARTS, executor=first)
    explored = Journal(tmp_path / "run").read()
    assert len(explored) == len(first.explored)
    executor = formulas()
    resumed = quick_tune(**PARTS, resume=True, executor=executor)
    assert not executor.explored
    assert executor.whole
    assert Journal(tmp_path / "run").read() == explored
    straight = quick_tune(**PARTS, out=tmp_path / "straight")
    assert resumed.tuned.config == straight.tuned.config
    assert resumed.tuned.against_default == straight.tuned.against_default


def test_what_failed_by_chance_is_tried_again_when_the_tune_goes_on(quick_tune, formulas, tmp_path: Path) -> None:
    crash = Failure(FailureKind.CRASHED, "the process ended with signal SIGKILL")
    trials = iter(range(100))

    def crashes_at_first(request: object, metrics: object, before: int) -> object:
        trial = next(trials)
        if trial == 3:
            raise KeyboardInterrupt
        return crash if trial < 2 else metrics  # the default's trial and its repetition

    with pytest.raises(KeyboardInterrupt):
        quick_tune(**PARTS, executor=formulas(crashes_at_first))
    first = Journal(tmp_path / "run").read()
    assert first[0].measurement.outcome == dataclasses.replace(crash, tries=2)
    found = quick_tune(**PARTS, resume=True)
    assert found.tuned.default is not None
    assert isinstance(found.tuned.default, Metrics)
    assert Journal(tmp_path / "run").read()[: len(first)] == first


def test_the_seconds_that_a_tune_took_are_kept_and_go_on(quick_tune, interrupted) -> None:
    first = TuneState.read(interrupted, [])
    assert first.finished_budget is None
    TuneState(first.elapsed_s + 500, problem="of the first run").write(interrupted)
    found = quick_tune(**PARTS, resume=True)
    assert found.seconds > 500
    assert TuneState.read(interrupted, []).problem == ""
    assert TuneState.read(interrupted, []).elapsed_s >= found.seconds
    assert TuneState.read(interrupted, []).finished_budget == 4


def test_the_clock_starts_with_the_call_and_counts_what_lies_between_trials(quick_tune, formulas) -> None:
    marks: list[float] = []
    called = time.monotonic()
    found = quick_tune(**PARTS, executor=formulas(lambda _, metrics, __: (marks.append(time.monotonic()), metrics)[1]))
    assert marks[-1] - called <= found.seconds <= time.monotonic() - called


def test_what_a_store_serves_takes_none_of_the_time(quick_tune, tmp_path: Path) -> None:
    quick_tune(**PARTS, store=tmp_path / "store.db", out=tmp_path / "first", budget=1)
    with ProfileStore.open(tmp_path / "store.db") as store:
        for row in store.rows():
            store.add(dataclasses.replace(row, seconds=500.0))
    quick_tune(**PARTS, store=tmp_path / "store.db", budget=1)
    journal = Journal(tmp_path / "run").read()
    assert journal[0].measurement.seconds == 500
    assert TuneState.read(tmp_path / "run", journal).elapsed_s < 500


def test_old_folders_without_a_state_count_their_trials(interrupted) -> None:
    (interrupted / "state.json").unlink()
    trials = Journal(interrupted).read()
    state = TuneState.read(interrupted, trials)
    assert state == TuneState(sum(trial.measurement.seconds for trial in trials), None)


def test_the_reserve_for_the_verification_is_restored(interrupted, tiny_graph: Graph, hardware, formulas) -> None:
    _edit_journal(interrupted, lambda m: m.update(seconds=40.0 if m["config"]["num_partitions"] == 1 else 10.0))
    request = dataclasses.replace(read_request(interrupted), budget=100.0)
    with open_study(request, tiny_graph, interrupted, resume=True, hardware=hardware, executor=formulas()) as opened:
        assert opened.runner.budget.trials == 1
        cost = TrialCost.of(opened.history)  # by formula, nothing of a trial is spent on its curve
        assert cost == (25.0, 0.0, 0.0)
        assert reserve_s(opened.history, opened.runner.budget.verification_s) == pytest.approx(100.0 / 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m["graph"].update(fingerprint="another", num_nodes=7), "graph was .* with 7 nodes .* and is .* 300"),
        (lambda m: m["hardware"].update(num_cores=96), "the machine changed: num_cores was 96 and is 2"),
        (lambda m: m.update(version=1), "measurements were of version 1"),
    ],
)
def test_a_tune_goes_on_only_with_its_graph_and_machine(quick_tune, interrupted, change, words: str) -> None:
    _edit_journal(interrupted, change)
    before = (interrupted / "probes.jsonl").read_text()
    with pytest.raises(UsageError, match=f"^resume goes on with the graph and the machine of the first run: .*{words}"):
        quick_tune(**PARTS, resume=True)
    assert (interrupted / "probes.jsonl").read_text() == before


def test_a_finished_tune_says_so_and_goes_on_under_a_larger_budget(quick_tune, formulas) -> None:
    first = quick_tune(**PARTS, budget=1)
    lines: list[str] = []
    idle = formulas()
    again = quick_tune(**PARTS, budget=1, resume=True, executor=idle, notify=lines.append)
    assert not idle.ran
    assert again.tuned == first.tuned
    assert again.front == first.front
    assert "is finished: 1 trial after the baseline" in lines[0]
    assert "a larger budget goes on" in lines[0]
    assert again.summary._replace(verified="") == first.summary._replace(verified="")  # it has its seconds
    more = formulas()
    longer = quick_tune(**PARTS, budget=3, resume=True, executor=more)
    assert len(more.explored) == 2
    assert more.whole  # what was chosen before is compared anew with what was found since
    assert longer.trials == 3
    assert quick_tune(**PARTS, budget=2, resume=True, executor=idle).trials == 3
    assert not idle.ran


def test_a_budget_of_the_other_kind_is_compared_with_what_was_spent(quick_tune, formulas) -> None:
    quick_tune(**PARTS, budget=1)
    idle = formulas()
    quick_tune(**PARTS, budget=1e-3, resume=True, executor=idle)
    assert not idle.ran
    quick_tune(**PARTS, budget=10.0, resume=True, executor=idle)
    assert idle.ran


def test_the_front_so_far_is_shown_until_the_tune_has_finished(quick_tune, interrupted, tmp_path: Path) -> None:
    so_far = unfinished_front(interrupted)
    assert so_far is not None
    assert len(so_far.rows) == 2
    assert TrainConfig() in [row.config for row in so_far.rows]
    assert not any("chosen" in row.labels for row in so_far.rows)
    quick_tune(**PARTS, resume=True)
    assert unfinished_front(interrupted) is None
    assert unfinished_front(tmp_path) is None


def test_a_budget_that_is_short_is_said_before_anything_is_measured(quick_tune) -> None:
    lines: list[str] = []
    found = quick_tune(**PARTS, budget=0.001, notify=everything(lines))
    short = next(i for i, line in enumerate(lines) if "the budget is short" in line)
    default = next(i for i, line in enumerate(lines) if line.startswith("baseline"))
    assert short < default
    assert re.search(r"a tune with one trial needs about budget='\d+s' here", lines[short])
    assert "The baseline and the choice's whole training run anyway and may take" in lines[short]
    assert any("the search ends after 0 trials: the budget is spent" in line for line in lines)
    assert not any(line.startswith("search ") for line in lines)
    assert found.tuned.config == TrainConfig()


@pytest.mark.parametrize(("budget", "expected"), [(0.001, 1), (3, 0)])
def test_why_a_search_ends_is_a_detail_unless_it_found_nothing(quick_tune, budget: float, expected: int) -> None:
    lines: list[str] = []
    quick_tune(**PARTS, budget=budget, notify=lines.append)
    assert sum("the search ends" in line for line in lines) == expected


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "from_before"])
def test_a_resumed_tune_keeps_its_space_whatever_the_probe_finds_now(
    kept, interrupted, tiny_graph: Graph, hardware, formulas
) -> None:
    faster = dataclasses.replace(hardware.profile, bf16_gemm_flops_per_s=10 * hardware.profile.gemm_flops_per_s)
    now = dataclasses.replace(hardware, profile=faster)
    if not kept:
        (interrupted / "product_speeds.json").unlink()
    request = dataclasses.replace(read_request(interrupted), fixed=())
    (interrupted / "request.json").write_text(json.dumps(request.to_dict()))
    with open_study(request, tiny_graph, interrupted, resume=True, hardware=now, executor=formulas()) as opened:
        values = opened.history.space.knob("compute_dtype").values
    assert values == (("float32",) if kept else ("float32", "bfloat16"))


def test_product_speeds_that_can_not_be_read_are_refused(interrupted, quick_tune) -> None:
    (interrupted / "product_speeds.json").write_text("{}")
    with pytest.raises(UsageError, match=r"product_speeds.json must hold .* remove it"):
        quick_tune(**PARTS, resume=True)


def test_a_second_tune_in_one_folder_is_refused_and_the_first_goes_on(quick_tune, formulas, interrupted) -> None:
    refused: list[UsageError] = []

    def begins_another(request: object, metrics: object, before: int) -> object:
        if not refused:
            for resume in (True, False):
                with pytest.raises(UsageError) as error:
                    quick_tune(**PARTS, resume=resume, executor=formulas())
                refused.append(error.value)
        return metrics

    result = quick_tune(**PARTS, resume=True, executor=formulas(begins_another))
    assert f"another process runs there: process {os.getpid()} since" in str(refused[0])
    assert TuneState.read(interrupted, []).finished_budget == 4
    assert len(Journal(interrupted).read()) == len(result.front.rows)
    assert not (interrupted / LOCK_NAME).exists()


def test_two_new_tunes_of_one_folder_are_one(quick_tune, formulas, tmp_path: Path) -> None:
    lines: list[str] = []

    def begins_another(line: str) -> None:
        lines.append(line)
        if len(lines) == 1:
            assert not (tmp_path / "run" / "request.json").exists()
            with pytest.raises(UsageError, match="one run at a time may write"):
                quick_tune(**PARTS, executor=formulas())

    quick_tune(**PARTS, executor=formulas(), notify=begins_another)
    assert TuneState.read(tmp_path / "run", []).finished_budget == 4


def test_a_default_that_takes_too_long_is_tried_no_other_way_and_again_with_a_larger_budget(
    quick_tune, formulas, tmp_path: Path
) -> None:
    late = Failure(FailureKind.TIMEOUT, "took longer than 60 s, and was at model.py:8 in forward", limit=60.0)
    executor, lines = formulas(lambda request, metrics, before: late), []
    with pytest.raises(InfeasibleError, match=r"was at model\.py:8 in forward\. Give a larger budget, as a duration"):
        quick_tune(**PARTS, budget=0.1, executor=executor, notify=lines.append)
    assert len(executor.ran) == 1
    assert any("the baseline took too long" in line for line in lines)
    assert not any("does not fit" in line or "nothing fits:" in line for line in lines)
    again = formulas()
    result = quick_tune(**PARTS, budget=600.0, resume=True, executor=again)
    assert again.explored[0].config == TrainConfig().canonical()
    assert result.tuned.measured is not None


def test_a_baseline_whose_time_ends_while_it_opens_its_features_is_tried_with_features_on_disk(
    quick_tune, formulas
) -> None:
    def opens(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        late = Failure(FailureKind.TIMEOUT, f"{OPENING}: took longer than 60 s", limit=60.0)
        return late if request.config.feature_tier == "ram" else metrics

    executor, lines = formulas(opens), []
    fixed = {"fix": PARTS["fix"] | {"feature_tier": "disk"}}
    result = quick_tune(**fixed, budget=1, executor=executor, notify=lines.append)
    assert [one.config.feature_tier for one in executor.explored][:2] == ["ram", "disk"]
    assert result.tuned.default_budget_s is not None
    assert "the baseline took too long to open; trying it with features on disk" in lines


def test_a_baseline_that_reads_from_disk_is_labeled_as_the_baseline(quick_tune, hardware, tiny_graph) -> None:
    small = dataclasses.replace(hardware, host_memory_bytes=tiny_graph.characteristics().feature_bytes)
    result = quick_tune(hardware=small, budget=2)
    on_disk = TrainConfig(feature_tier="disk").canonical()
    assert next(row for row in result.front.rows if "default" in row.labels).config == on_disk
    status = TuneStatus.read(result.folder)
    assert status.baseline is not None
    assert status.baseline.config == on_disk
    measured = Measured(KeptTune.read(result.folder))
    assert measured.default is not None
    assert measured.trials[measured.default].measurement.config == on_disk
    picked = pick(result.folder, priority="memory")
    assert any("default" in row.labels for row in picked.front.rows)


# Calls of the executor: the default, a trial, then the default is timed before each trial.
@pytest.mark.parametrize(
    ("store", "calls", "trials"),
    [
        (None, 3, 2),
        ("store.db", 9, 5),
        *(pytest.param(*one, marks=pytest.mark.weekly) for one in ((None, 4, 3), ("store.db", 4, 3))),
    ],
)
def test_a_tune_that_goes_on_proposes_what_it_would_have_without_a_break(
    quick_tune, formulas, tmp_path: Path, store: str | None, calls: int, trials: int
) -> None:
    def options(name: str) -> dict[str, object]:
        kept = {} if store is None else {"store": tmp_path / f"{name}-{store}"}
        return {"budget": 8, "out": tmp_path / name, "max_accuracy_drop": 100.0, **kept}

    quick_tune(**options("straight"))
    first = formulas(_interrupting(calls))
    with pytest.raises(KeyboardInterrupt, match="resume=True goes on"):
        quick_tune(**options("broken"), executor=first)
    assert len(Journal(tmp_path / "broken").read()) == trials
    quick_tune(**options("broken"), resume=True)
    straight, broken = (
        [(one.measurement.config, one.predicted) for one in Journal(tmp_path / name).read()]
        for name in ("straight", "broken")
    )
    assert len(straight) == 9
    assert [config for config, _ in broken] == [config for config, _ in straight]
    assert broken == straight
