"""A machine whose speed changes while a tune explores: what is judged, trained, kept and said; by formulas."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from a3gnn.errors import UsageError
from a3gnn.figures import Figures
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.objectives import Priority
from a3gnn.profiling.replay import Replay
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.profiling.trial.request import TrialRequest
from a3gnn.tuning.drift import at_reference_pace, drift_since
from a3gnn.tuning.expectations import expected_trial_s, fit_surrogate, predict
from a3gnn.tuning.explore import measure_round
from a3gnn.tuning.history import History
from a3gnn.tuning.journal import Journal
from a3gnn.tuning.play_off import play_off
from a3gnn.tuning.proposal import Proposal
from a3gnn.tuning.propose import ROUND_TRIALS
from a3gnn.tuning.trial import Trial
from a3gnn.tuning.trial_plan import trial_plan
from tests.tuning.formulas import SMALL_SPACE
from tests.tuning.measured import DEFAULT, FOUR_PARTS, MODE1, TWO_PARTS, Measured

MiB = 2**20
#: More than a round of configurations; eight parts are the fastest, and more parts learn less.
PARTS = {
    "fix": SMALL_SPACE | {"parallel_mode": "sequential", "feature_tier": "ram"},
    "max_accuracy_drop": 100.0,
    "budget": ROUND_TRIALS + 2,
}


def at_speed(metrics: Metrics, speed: float) -> Metrics:
    """Returns what `metrics` would be on a machine that runs at `speed`."""
    return at_reference_pace(metrics, 1 / speed)


class Machine:
    """Runs at `speed`, and from the trial after `after` trials on at `then`, timings counted."""

    def __init__(self, after: float = float("inf"), then: float = 0.5) -> None:
        self.speed, self.after, self.then, self.ran = 1.0, after, then, 0

    def run(self, request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        self.ran += 1
        metrics = dataclasses.replace(metrics, setup_seconds=0.5)
        return at_speed(metrics, self.then if self.ran > self.after else self.speed)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def a_round(tune: Measured, history: History, *configs: object) -> History:
    """Returns `history` with a round of trials of `configs`, the drift measured before it."""
    surrogate = fit_surrogate(history)
    tune.runner.follow_drift(history)
    return measure_round([Proposal("front", config) for config in configs], history, surrogate, tune.runner).history


def without_drift(history: History) -> History:
    """The same trials, judged as they were measured."""
    return dataclasses.replace(history, trials=tuple(dataclasses.replace(one, drift=1.0) for one in history.trials))


@pytest.mark.parametrize(
    ("old", "new", "drift"),
    [
        ((0.9, 1.0, 1.1), (0.45, 0.5, 0.55), 0.5),
        ((0.9, 1.0, 1.1), (1.8, 2.0, 2.2), 2.0),
        ((0.9, 1.0, 1.1), (0.6, 0.7, 0.9), 1.0),  # they meet at 0.9
        ((0.9, 1.0, 1.1), (0.2, 0.7, 3.0), 1.0),  # a range around the other tells nothing
        ((0.9, 1.0, 1.1), (0.6, 0.7, 0.89), 0.7),
    ],
)
def test_ranges_that_overlap_are_noise(make_metrics, old: tuple, new: tuple, drift: float) -> None:
    made = [
        dataclasses.replace(
            make_metrics(of[1], 300 * MiB, 0.9), throughput_replicates=of, throughput_epochs_per_s=of[1]
        )
        for of in (old, new)
    ]
    assert drift_since(*made) == pytest.approx(drift)


def test_rows_without_replicates_have_the_range_of_their_throughput(make_metrics) -> None:
    before = dataclasses.replace(make_metrics(2.0, 300 * MiB, 0.9), throughput_replicates=())
    assert drift_since(before, before) == 1
    assert drift_since(before, dataclasses.replace(before, throughput_epochs_per_s=1.0)) == 0.5


@pytest.mark.parametrize("drift", [0.0, -1.0, float("nan"), float("inf")])
def test_a_drift_is_the_ratio_of_two_speeds(measured, drift: float) -> None:
    trial = measured().history.trials[0]
    with pytest.raises(UsageError, match=r"drift must be finite and > 0, got .*; 1 is"):
        dataclasses.replace(trial, drift=drift)


def test_a_speed_that_rounds_to_that_of_the_reference_is_not_printed(measured, formulas, machine) -> None:
    tune = measured(executor=formulas(machine.run))
    tune.runner.drift = 1.0004
    tune.runner.follow_drift(tune.history)
    machine.speed = 0.5
    tune.runner.follow_drift(tune.history)
    machine.speed = 1.0
    tune.runner.follow_drift(tune.history)
    tune.runner.follow_drift(tune.history)
    assert [line for line in tune.lines if line.startswith("the machine runs")] == [
        "the machine runs at 0.5 of the speed at which the reference was measured; trials are judged by that",
        "the machine runs as fast again as when the reference was measured",
    ]


def test_a_slow_minute_changes_nothing_that_is_judged_but_all_that_is_stored(measured, formulas, machine) -> None:
    tune = measured(executor=formulas(machine.run))
    plan = trial_plan(Proposal("front", FOUR_PARTS), tune.history)
    quick = formulas(Machine().run).run(TrialRequest(FOUR_PARTS, tune.history.study.setting, "", plan))
    expected = Figures.of(quick, quick.curve, tune.history.reference)
    machine.speed = 0.5
    slow = a_round(tune, tune.history, FOUR_PARTS).measured()[-1]
    assert slow.trial.drift == 0.5
    assert slow.figures == expected
    assert slow.metrics.curve == quick.curve  # as many mini-batches, in twice the seconds
    assert slow.metrics.setup_seconds == quick.setup_seconds
    raw = slow.trial.measurement.metrics
    assert raw.throughput_epochs_per_s == quick.throughput_epochs_per_s / 2
    assert raw.setup_seconds == 2 * quick.setup_seconds
    assert Journal(tune.runner.folder).read()[-1] == slow.trial
    with ProfileStore.open(tune.runner.folder / "profiles.sqlite") as store:
        assert slow.trial.measurement in list(store.rows())
    assert "-> 1.4 (1.33 to 1.47) epochs/s" in tune.lines[-1]


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_the_best_is_found_though_the_machine_changes_between_rounds(measured, formulas, machine, speed: float) -> None:
    tune = measured(executor=formulas(machine.run), max_accuracy_drop=10.0)
    history = a_round(tune, tune.history, *((TWO_PARTS,) if speed < 1 else (FOUR_PARTS,)))
    machine.speed = speed
    history = a_round(tune, history, *((FOUR_PARTS,) if speed < 1 else (TWO_PARTS,)))
    assert history.best().trial.measurement.config == FOUR_PARTS
    assert without_drift(history).best().trial.measurement.config == TWO_PARTS
    assert [trial.drift for trial in history.trials] == [1, 1, pytest.approx(speed)]
    (line,) = (line for line in tune.lines if line.startswith("the machine runs"))
    assert line == (
        f"the machine runs at {speed:.3g} of the speed at which the reference was measured; trials are judged by that"
    )


def test_of_what_the_play_off_times_its_own_pace_alone_is_left(measured, formulas, machine) -> None:
    tune = measured(executor=formulas(machine.run), max_accuracy_drop=10.0)
    machine.speed = 0.5
    history = a_round(tune, tune.history, TWO_PARTS, MODE1)
    machine.speed = 0.25
    choice = play_off(history, tune.runner)
    assert choice.trial.measurement.config == MODE1
    for config, speed in ((DEFAULT, 1.0), (TWO_PARTS, 1.2), (MODE1, 1.3)):
        assert choice.figures[config.key()].throughput_epochs_per_s == pytest.approx(0.25 * speed)
    loser = choice.figures[TWO_PARTS.key()]
    assert loser.seconds_to_accuracy == pytest.approx((0.5 + 30 / (1.2 * 10)) / 0.25)  # set-up, and three points
    assert choice.judged.metrics.setup_seconds == pytest.approx(0.5 / 0.25)


@pytest.mark.parametrize("priority", ["time", "throughput", "accuracy"])
def test_a_trial_under_a_drift_trains_as_many_mini_batches(measured, priority: str) -> None:
    history = measured(TWO_PARTS, FOUR_PARTS, MODE1, priority=Priority.parse(priority), max_accuracy_drop=10.0).history
    proposal = Proposal("best", TWO_PARTS.replace(num_partitions=8))
    usual, slow = trial_plan(proposal, history), trial_plan(proposal, history, 0.5)
    assert slow.curve.most_seconds == 2 * usual.curve.most_seconds
    assert [one.seconds for one in slow.curve.hurdles] == [2 * one.seconds for one in usual.curve.hurdles]
    assert slow.curve.least_throughput == usual.curve.least_throughput / 2
    assert slow.curve.hurdles or slow.curve.least_throughput
    same = {"most_seconds": 1.0, "hurdles": (), "least_throughput": 0.0}
    assert dataclasses.replace(slow.curve, **same) == dataclasses.replace(usual.curve, **same)
    assert dataclasses.replace(slow, curve=None) == dataclasses.replace(usual, curve=None)


def test_a_slower_machine_is_expected_to_take_longer(measured) -> None:
    history = measured(trial_s=2.0, priority=Priority.parse("accuracy")).history
    surrogate, new = fit_surrogate(history), TWO_PARTS
    usual, slow = (expected_trial_s(surrogate, history, new, drift) for drift in (1.0, 0.5))
    assert slow - usual == pytest.approx(history.reference.budget_s)


@pytest.mark.parametrize(("drift", "made"), [(1.0, 1), (0.1, 0)])
def test_what_a_slower_machine_has_no_time_for_is_left_out_of_a_round(measured, drift: float, made: int) -> None:
    tune = measured(trial_s=2.0, budget=60.0, priority=Priority.parse("accuracy"))
    tune.runner.drift = drift
    surrogate = fit_surrogate(tune.history)
    found = measure_round([Proposal("front", TWO_PARTS)], tune.history, surrogate, tune.runner)
    assert len(found.history.trials) == 1 + made
    assert ("another trial is expected to take" in found.ended) is not bool(made)


def test_a_default_that_can_not_be_timed_leaves_the_drift(measured, formulas, machine) -> None:
    broken: list[bool] = []

    def run(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if broken and request.plan.curve is None:
            return Failure(FailureKind.TIMEOUT, "passed the limit of 60 s")
        return machine.run(request, metrics, before)

    tune = measured(executor=formulas(run))
    machine.speed = 0.5
    history = a_round(tune, tune.history, TWO_PARTS)
    broken.append(True)
    history = a_round(tune, history, FOUR_PARTS)
    assert [trial.drift for trial in history.trials[1:]] == pytest.approx([0.5, 0.5])
    assert any("the default could not be timed, timeout: passed the limit" in line for line in tune.lines)


@pytest.mark.parametrize("stored", [True, False])
def test_the_surrogate_learns_the_reference_pace_also_of_what_the_store_holds(measured, stored: bool) -> None:
    history = measured(TWO_PARTS, FOUR_PARTS).history
    slowed = [
        dataclasses.replace(
            trial,
            drift=0.5,
            measurement=dataclasses.replace(trial.measurement, outcome=at_speed(trial.measurement.metrics, 0.5)),
        )
        for trial in history.trials[1:]
    ]
    drifted = dataclasses.replace(history, trials=(history.trials[0], *slowed))
    if stored:
        rows = tuple(trial.measurement for trial in drifted.trials)
        drifted = dataclasses.replace(drifted, study=dataclasses.replace(drifted.study, corpus=rows))

    def expected(history: History) -> float:
        return float(predict(fit_surrogate(history), history, [FOUR_PARTS]).column("throughput_epochs_per_s")[0])

    assert expected(drifted) == expected(history)
    assert expected(without_drift(drifted)) < 0.8 * expected(history)


def test_a_tune_follows_a_machine_that_slows_between_its_rounds(quick_tune, formulas, tmp_path: Path) -> None:
    steady = quick_tune(**PARTS, executor=formulas(Machine().run), out=tmp_path / "steady")
    usual = [(one.measurement.config, one.drift) for one in Journal(steady.folder).read()]
    assert [drift for _, drift in usual] == [1.0] * len(usual)
    lines: list[str] = []
    slowing = formulas(Machine(after=1 + ROUND_TRIALS).run)
    found = quick_tune(**PARTS, executor=slowing, notify=lines.append)
    trials = Journal(found.folder).read()
    assert [one.drift for one in trials] == pytest.approx([1.0] * (1 + ROUND_TRIALS) + [0.5] * 2)
    assert [one.measurement.config for one in trials] == [config for config, _ in usual]
    timings = [i for i, one in enumerate(slowing.ran) if one.plan.curve is None]
    assert timings[0] == 1 + ROUND_TRIALS  # after a round, before the next; the first needs none
    assert slowing.ran[timings[0]].config == DEFAULT
    assert found.trials == PARTS["budget"]  # a timing is no trial
    assert sum("the machine runs at 0.5 of the speed" in line for line in lines) == 1
    assert found.tuned.config == steady.tuned.config


@pytest.mark.parametrize("fails", [False, True])
def test_a_tune_that_goes_on_keeps_drifts_and_measures_it_first(
    quick_tune, formulas, tmp_path: Path, fails: bool
) -> None:
    def interrupted(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        found = machine.run(request, metrics, before)
        if machine.ran == 2 + ROUND_TRIALS + 2:
            raise KeyboardInterrupt
        return found

    machine = Machine(after=1 + ROUND_TRIALS)
    with pytest.raises(KeyboardInterrupt, match="resume=True goes on"):
        quick_tune(**PARTS, executor=formulas(interrupted))
    first = Journal(tmp_path / "run").read()
    assert [one.drift for one in first] == pytest.approx([1.0] * (1 + ROUND_TRIALS) + [0.5])
    changed = Machine(after=0, then=0.25)

    def failing(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        found = changed.run(request, metrics, before)
        return Failure(FailureKind.TIMEOUT, "passed the limit") if fails and changed.ran == 1 else found

    later = formulas(failing)
    quick_tune(**PARTS, resume=True, executor=later)
    trials = Journal(tmp_path / "run").read()
    assert trials[: len(first)] == first
    assert trials[-1].drift == (0.5 if fails else 0.25)
    assert (later.ran[0].config, later.ran[0].plan.curve) == (DEFAULT, None)


def test_what_a_store_serves_has_no_drift(quick_tune, formulas, tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    quick_tune(**PARTS | {"budget": 1}, executor=formulas(Machine().run), store=store, out=tmp_path / "first")
    known = Journal(tmp_path / "first").read()
    executor = formulas(Machine(after=0).run)
    quick_tune(**PARTS | {"budget": 2}, executor=executor, store=store)
    assert executor.ran[0].plan.curve is None  # the machine may have changed since the default was stored
    trials, served = Journal(tmp_path / "run").read(), {one.measurement.id for one in known}
    assert trials[0].measurement.id in served
    assert [one.drift for one in trials] == [1.0 if one.measurement.id in served else 0.5 for one in trials]
    assert trials[-1].drift == 0.5 or trials[-2].drift == 0.5


def test_a_replay_has_no_drift(measured, formulas) -> None:
    tune = measured(TWO_PARTS, FOUR_PARTS)
    rows = [trial.measurement for trial in tune.history.trials]
    replayed = measured(executor=Replay(rows))
    replayed.runner.follow_drift(replayed.history)
    assert replayed.runner.drift == 1
    assert replayed.lines == []


def test_journals_from_before_are_read_and_damaged_drifts_refused(measured) -> None:
    trial = measured().history.trials[0]
    fields = trial.to_dict()
    assert Trial.from_dict({name: value for name, value in fields.items() if name != "drift"}) == trial
    moved = dataclasses.replace(trial, drift=0.5)
    assert Trial.from_dict(moved.to_dict()) == moved
    with pytest.raises(UsageError):
        Trial.from_dict(fields | {"drift": 0.0})
