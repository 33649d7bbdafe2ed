"""A machine whose speed changes while a tune explores: what is judged, trained, kept and said; by formulas."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.figures import Figures
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.objectives import Priority
from a3gnn.profiling import profiler
from a3gnn.profiling.replay import Replay
from a3gnn.profiling.request import TrialRequest
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.expectations import expected_trial_s, fit_surrogate, predict
from a3gnn.tuning.engines.engine import make_engine
from a3gnn.tuning.outcome.result import SearchSummary
from a3gnn.tuning.run.finish import finish
from a3gnn.tuning.run.plans import trial_plan
from a3gnn.tuning.study.folder import Journal
from a3gnn.tuning.study.foresight import curve_ends
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import Proposal, SpeedTiming, Trial, at_reference_pace, drift_at
from a3gnn.tuning.verify.verification import verify
from tests.lines import everything
from tests.tuning.formulas import SMALL_SPACE
from tests.tuning.measured import DEFAULT, FOUR_PARTS, MODE1, TWO_PARTS, Measured

MiB = 2**20
#: Eight parts are the fastest, and more parts learn less.
PARTS = {
    "fix": SMALL_SPACE | {"parallel_mode": "sequential", "feature_tier": "ram"},
    "max_accuracy_drop": 100.0,
    "budget": 5,
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


def tried(tune: Measured, history: History, *configs: TrainConfig) -> History:
    """Returns `history` with trials of `configs`, the reference timed before the first."""
    history = tune.runner.time_reference(history)
    for config in configs:
        history = tune.runner.measure(Proposal("front", config), Beliefs(history, fit_surrogate(history)))
    return history


def without_drift(history: History) -> History:
    """The same trials, judged as they were measured."""
    return dataclasses.replace(history, trials=tuple(dataclasses.replace(one, drift=1.0) for one in history.trials))


def at(second: float) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()


def timing(second: float, drift: float) -> SpeedTiming:
    return SpeedTiming(at(second), drift)


@pytest.mark.parametrize(
    ("second", "drift"),
    [
        (0, 1.0),
        (50, 0.5),
        (100, 0.25),
        (150, 0.25 * 2**0.5),
        (200, 0.5),
        (1000, 0.5),  # until there is another
        (-1, None),  # before the first one nobody knows
    ],
)
def test_between_two_timings_the_drift_is_interpolated(second: float, drift: float | None) -> None:
    assert drift_at(at(second), [timing(0, 1.0), timing(100, 0.25), timing(200, 0.5)]) == (
        drift and pytest.approx(drift)
    )
    assert drift_at(at(second), []) is None


def simulated_errors(correlation_s: float) -> tuple[float, float]:
    """Returns the root mean square errors of the drift's logarithm, judged at the end of a tune and meanwhile.

    A machine's load changes its speed by 25 %, and is as correlated as an AR(1) process of that time; a timing's own
    noise is 3 %. Trials take 3 to 9 s, a timing 3 s.
    """
    rng, errors = np.random.default_rng(0), []
    for _ in range(60):
        seconds = np.concatenate([[0.0, 10.0], 10.0 + np.cumsum(rng.uniform(3, 9, 20))])
        load = [rng.normal()]
        for step in np.diff(seconds):
            kept = math.exp(-step / correlation_s)
            load.append(kept * load[-1] + math.sqrt(1 - kept**2) * rng.normal())
        log_speed = 0.25 * (np.array(load) - load[0])
        timed = range(0, len(seconds), 2)
        timings = [timing(seconds[i], math.exp(log_speed[i] + 0.03 * rng.normal() * (i > 0))) for i in timed]
        for trial in set(range(1, timed[-1])) - set(timed):
            before = [one for one, i in zip(timings, timed, strict=True) if i < trial]
            judged = [drift_at(at(seconds[trial]), known) for known in (timings, before)]
            errors.append(np.log(judged) - log_speed[trial])
    interpolated, plugged_in = np.sqrt(np.mean(np.square(errors), axis=0))
    return float(interpolated), float(plugged_in)


@pytest.mark.parametrize(("correlation_s", "least_gain"), [(2.0, 0.1), (10.0, 0.15), (60.0, 0.25)])
def test_both_timings_tell_more_of_a_trial_than_the_one_before_it(correlation_s: float, least_gain: float) -> None:
    interpolated, plugged_in = simulated_errors(correlation_s)
    assert interpolated < (1 - least_gain) * plugged_in


@pytest.mark.parametrize("fields", [{"drift": 0.0}, {"drift": math.inf}, {"created": "yesterday"}])
def test_a_timing_is_a_time_and_a_ratio(fields: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"drift must be finite|created must be a time in ISO 8601, got 'yesterday'"):
        dataclasses.replace(timing(0, 1.0), **fields)


@pytest.mark.parametrize("drift", [0.0, -1.0, float("nan"), float("inf")])
def test_a_drift_is_the_ratio_of_two_speeds(measured, drift: float) -> None:
    trial = measured().history.trials[0]
    with pytest.raises(UsageError, match=r"drift must be finite and > 0, got .*; 1 is"):
        dataclasses.replace(trial, drift=drift)


def test_a_speed_that_rounds_to_that_of_the_reference_is_not_printed(measured, formulas, machine) -> None:
    tune = measured(executor=formulas(machine.run))
    history = tune.history
    for machine.speed in (1.004, 0.5, 1.0, 0.9996):
        history = tune.runner.time_reference(history)
    assert [line for line in tune.lines if line.startswith("the machine ")] == [
        "the machine runs at 0.5 of the speed of the baseline's trial; trials are corrected by that",
        "the machine is as fast again as in the baseline's trial",
    ]


def test_a_slow_minute_changes_nothing_that_is_judged_but_all_that_is_stored(measured, formulas, machine) -> None:
    tune = measured(executor=formulas(machine.run))
    plan = trial_plan(Proposal("front", FOUR_PARTS), tune.history, ends=curve_ends())
    quick = formulas(Machine().run).run(TrialRequest(FOUR_PARTS, tune.history.study.setting, "", plan))
    expected = Figures.of(quick, quick.curve, tune.history.reference)
    machine.speed = 0.5
    slow = tried(tune, tune.history, FOUR_PARTS).measured()[-1]
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
    assert "    1.4 (1.33 to 1.47) epochs/s" in tune.lines[-1]


class Clock:
    """Every measurement begins ten seconds after the one before it."""

    def __init__(self) -> None:
        self.second = -10.0

    def now(self, zone: tzinfo) -> datetime:
        self.second += 10
        return datetime.fromtimestamp(self.second, zone)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(profiler, "datetime", found)
    return found


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_the_best_is_found_though_the_machine_changes_all_the_time(measured, formulas, clock, speed: float) -> None:
    def run(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return at_speed(metrics, speed ** (clock.second / 20))

    tune = measured(executor=formulas(run), max_accuracy_drop=10.0)
    first, then = (TWO_PARTS, FOUR_PARTS) if speed < 1 else (FOUR_PARTS, TWO_PARTS)
    history = tried(tune, tune.history, first)
    assert [trial.drift for trial in history.trials] == [1, pytest.approx(speed**0.5)]  # nothing is known of later
    history = tried(tune, history, then)
    history = tune.runner.time_reference(history)
    assert history.best().trial.measurement.config == FOUR_PARTS
    assert without_drift(history).best().trial.measurement.config == (DEFAULT if speed < 1 else TWO_PARTS)
    assert [trial.drift for trial in history.trials] == [1, pytest.approx(speed), pytest.approx(speed**2)]
    kept = Journal(tune.runner.folder)
    assert kept.read() == list(history.trials[1:])
    assert kept.timings() == list(history.timings)
    line = next(line for line in tune.lines if line.startswith("the machine runs"))
    assert line == (
        f"the machine runs at {speed**0.5:.2g} of the speed of the baseline's trial; trials are corrected by that"
    )


def test_of_what_the_verification_times_its_own_pace_alone_is_left(measured, formulas, machine) -> None:
    tune = measured(executor=formulas(machine.run), max_accuracy_drop=10.0)
    machine.speed = 0.5
    history = tried(tune, tune.history, TWO_PARTS, MODE1)
    machine.speed = 0.25
    choice = verify(history, tune.runner)
    assert choice.trial.measurement.config == MODE1
    for config, speed in ((DEFAULT, 1.0), (TWO_PARTS, 1.2), (MODE1, 1.3)):
        assert choice.figures[config.key()].throughput_epochs_per_s == pytest.approx(0.25 * speed)
    loser = choice.figures[TWO_PARTS.key()]
    assert loser.seconds_to_accuracy == pytest.approx((0.5 + 30 / (1.2 * 10)) / 0.25)  # set-up, and three points
    assert choice.judged.metrics.setup_seconds == pytest.approx(0.5 / 0.25)


def test_the_seconds_that_both_were_given_are_told_at_the_pace_of_the_verification(measured, formulas, machine) -> None:
    tune = measured(executor=formulas(machine.run), max_accuracy_drop=10.0)
    machine.speed = 0.5
    history = tried(tune, tune.history, MODE1)
    result = finish(history, verify(history, tune.runner), SearchSummary("ei"), tune.runner)
    given_s = {one.plan.curve.most_seconds for one in tune.executor.whole}
    assert {result.tuned.default_budget_s} == given_s == {2 * history.reference.budget_s}
    assert f", each after {2 * history.reference.budget_s:.3g} s" in " ".join(repr(result).split())


def test_a_timing_is_on_disk_before_anyone_is_told_of_it(measured, formulas, machine) -> None:
    tune, kept = measured(executor=formulas(machine.run)), []
    said = everything(lines := [])

    def notify(line: str) -> None:
        said(line)
        if lines:
            kept.append((lines.pop(), Journal(tune.runner.folder).timings()[-1:]))

    tune.runner.notify = notify
    machine.speed, history = 0.5, tune.history
    history = tune.runner.time_reference(history)
    machine.speed = 1.0
    history = tune.runner.time_reference(history)
    assert [line.split()[2] for line, _ in kept] == ["runs", "is"]  # half the speed, as fast again
    assert [timings for _, timings in kept] == [[one] for one in history.timings]


@pytest.mark.parametrize("priority", ["time", "throughput", "accuracy"])
def test_a_trial_under_a_drift_trains_as_many_mini_batches(measured, priority: str) -> None:
    history = measured(TWO_PARTS, FOUR_PARTS, MODE1, priority=Priority.parse(priority), max_accuracy_drop=10.0).history
    proposal = Proposal("best", TWO_PARTS.replace(num_partitions=8))
    slowest = Beliefs(history, fit_surrogate(history)).slowest(proposal.config.canonical())
    usual, slow = (trial_plan(proposal, history, slowest, drift) for drift in (1.0, 0.5))
    assert slow.curve.most_seconds == 2 * usual.curve.most_seconds
    assert slow.curve.race.seconds == (None if priority == "accuracy" else 2 * usual.curve.race.seconds)
    assert slow.curve.least_throughput == usual.curve.least_throughput / 2
    assert (slow.curve.least_throughput > 0) == (priority == "throughput")
    same = {"most_seconds": 1.0, "race": None, "least_throughput": 0.0}
    assert dataclasses.replace(slow.curve, **same) == dataclasses.replace(usual.curve, **same)
    assert dataclasses.replace(slow, curve=None) == dataclasses.replace(usual, curve=None)


def test_a_slower_machine_is_expected_to_take_longer(measured) -> None:
    history = measured(trial_s=2.0, priority=Priority.parse("accuracy")).history
    surrogate, new = fit_surrogate(history), TWO_PARTS
    usual, slow = (expected_trial_s(surrogate, history, new, drift) for drift in (1.0, 0.5))
    assert slow - usual == pytest.approx(history.reference.budget_s)


@pytest.mark.parametrize(("drift", "new"), [(1.0, True), (0.1, False)])
def test_a_slower_machine_has_no_time_for_a_new_curve(measured, drift: float, new: bool) -> None:
    tune = measured(trial_s=2.0, budget=100.0, priority=Priority.parse("accuracy"))
    history = tune.history.with_timing(SpeedTiming(tune.history.trials[-1].measurement.created, drift))
    history = dataclasses.replace(history, trials=tune.history.trials)
    beliefs = Beliefs(history, fit_surrogate(history))
    proposals = make_engine("ei", 0).propose(beliefs, 20, 60.0)
    assert proposals
    assert any(history.curve(one.config.canonical()) is None for one in proposals) is new, "a known curve is cheap"


def test_a_default_that_can_not_be_timed_leaves_the_drift(measured, formulas, machine) -> None:
    broken: list[bool] = []

    def run(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if broken and request.plan.curve is None:
            return Failure(FailureKind.TIMEOUT, "passed the limit of 60 s")
        return machine.run(request, metrics, before)

    tune = measured(executor=formulas(run))
    machine.speed = 0.5
    history = tried(tune, tune.history, TWO_PARTS)
    broken.append(True)
    history = tried(tune, history, FOUR_PARTS)
    assert [trial.drift for trial in history.trials[1:]] == pytest.approx([0.5, 0.5])
    assert any("its last timing counts: timeout: passed the limit" in line for line in tune.lines)


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


def test_a_tune_follows_a_machine_that_slows_between_two_trials(quick_tune, formulas, tmp_path: Path) -> None:
    steady = quick_tune(**PARTS, executor=formulas(Machine().run), out=tmp_path / "steady")
    usual = [(one.measurement.config, one.drift) for one in Journal(steady.folder).read()]
    assert [drift for _, drift in usual] == [1.0] * len(usual)
    lines: list[str] = []
    slowing = formulas(Machine(after=4).run)  # the default, a trial, a timing, a trial
    found = quick_tune(**PARTS, executor=slowing, notify=everything(lines))
    trials = Journal(found.folder).read()
    timings = Journal(found.folder).timings()
    assert [one.drift for one in timings] == pytest.approx([1.0, 1.0, 0.5, 0.5, 0.5])
    assert timings[0].created == trials[0].measurement.created
    assert [one.drift for one in trials] == [drift_at(one.measurement.created, timings) for one in trials]
    assert [trials[0].drift, *(one.drift for one in trials[-2:])] == pytest.approx([1.0, 0.5, 0.5])
    assert [one.measurement.config for one in trials] == [config for config, _ in usual]
    explored = slowing.ran[: 2 * PARTS["budget"]]
    timed = [i for i, one in enumerate(explored) if one.plan.curve is None]
    assert timed == [2, 4, 6, 8]  # before each trial but the first, which follows the default's
    assert {explored[i].config for i in timed} == {DEFAULT}
    assert found.trials == PARTS["budget"]  # a timing is no trial
    assert sum("the machine runs at 0.5 of the speed" in line for line in lines) == 3
    assert min(one.tuned.config.num_partitions for one in (found, steady)) >= 4  # the faster half


@pytest.mark.parametrize("fails", [False, True])
def test_a_tune_that_goes_on_keeps_drifts_and_measures_it_first(
    quick_tune, formulas, tmp_path: Path, fails: bool
) -> None:
    def interrupted(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        found = machine.run(request, metrics, before)
        if machine.ran == 7:
            raise KeyboardInterrupt
        return found

    machine = Machine(after=4)
    with pytest.raises(KeyboardInterrupt, match="resume=True goes on"):
        quick_tune(**PARTS, executor=formulas(interrupted))
    first = Journal(tmp_path / "run").read()
    assert [first[0].drift, first[-1].drift] == pytest.approx([1.0, 0.5])
    changed = Machine(after=0, then=0.25)

    def failing(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        found = changed.run(request, metrics, before)
        return Failure(FailureKind.TIMEOUT, "passed the limit") if fails and changed.ran == 1 else found

    later = formulas(failing)
    quick_tune(**PARTS, resume=True, executor=later)
    trials = Journal(tmp_path / "run").read()
    assert trials[: len(first) - 1] == first[:-1]  # judged by timings before and after them
    timings = Journal(tmp_path / "run").timings()
    kept = [1.0, 1.0, 0.5]
    assert [one.drift for one in timings][: len(kept)] == pytest.approx(kept)
    assert timings[-1].drift == pytest.approx(0.25)
    assert trials[len(first) - 1].drift == drift_at(first[-1].measurement.created, timings)
    assert trials[-1].drift == pytest.approx(0.25)
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
    assert replayed.runner.time_reference(replayed.history).drift == 1
    assert replayed.lines == []


def test_journals_from_before_are_read_and_damaged_drifts_refused(measured) -> None:
    trial = measured().history.trials[0]
    fields = trial.to_dict()
    assert Trial.from_dict({name: value for name, value in fields.items() if name != "drift"}) == trial
    moved = dataclasses.replace(trial, drift=0.5)
    assert Trial.from_dict(moved.to_dict()) == moved
    with pytest.raises(UsageError):
        Trial.from_dict(fields | {"drift": 0.0})


def test_a_journal_without_timings_keeps_the_drifts_that_it_says(measured) -> None:
    tune = measured()
    journal = Journal(tune.runner.folder)
    moved = dataclasses.replace(tune.history.trials[0], drift=0.5)
    journal.append(moved)
    assert journal.read() == [moved]
    journal.timings_path.unlink()  # as a tune from before leaves it
    assert journal.read() == [moved]
    assert journal.timings() == []
    journal.append_timing(timing(datetime.fromisoformat(moved.measurement.created).timestamp() + 60, 0.25))
    assert journal.read() == [moved]  # before the first timing nothing else is known of it


def test_a_timing_that_an_interruption_cut_short_is_left_out(measured) -> None:
    journal = Journal(measured().runner.folder)
    journal.append_timing(timing(0, 1.0))
    with journal.timings_path.open("a") as file:
        file.write('{"created": "20')
    assert journal.timings(mend=False) == [timing(0, 1.0)]
    assert journal.timings() == [timing(0, 1.0)]
    journal.append_timing(timing(10, 0.5))
    assert journal.timings() == [timing(0, 1.0), timing(10, 0.5)]
