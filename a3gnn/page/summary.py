"""The status of a study: its request, its time, the gain of the best configuration, and the time of each stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import KNOBS
from a3gnn.figures import DISTURBED, LEAST_PAIRS, Figures, Spread, doubts
from a3gnn.knobs import Knob
from a3gnn.measurement import METRICS, Metrics
from a3gnn.page.stored_study import Measured, StoredStudy
from a3gnn.pareto import non_dominated
from a3gnn.prediction import Prediction
from a3gnn.report.ratios import describe_figures, show_percent, show_ratio, show_seconds, show_speed
from a3gnn.report.text import changes_of, describe_knob
from a3gnn.tuning.study.budget import Budget
from a3gnn.tuning.study.choice import NoGain
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.tuning.study.importance import read_importance
from a3gnn.tuning.study.measured_front import read_predicted_front
from a3gnn.tuning.study.study import TuneRequest
from a3gnn.tuning.study.trial import Predicted
from a3gnn.tuning.tell.intro import describe_budget
from a3gnn.tuning.tell.summary import summary
from a3gnn.units import count, format_duration, format_size
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.physics.analytic import analytic_metrics, expected_work
from a3gnn_surrogate.physics.stage_seconds import UNCALIBRATED, Calibration, train_terms
from a3gnn_surrogate.rows import OUTPUTS, MeasuredSetting, own_calibration
from a3gnn_surrogate.search_points import by_task, costly

#: Display names of the parts of a step: three measured stages, and the parts of training.
PARTS = (
    *("sampling neighbors", "gathering rows", "copying to the device"),
    *("matrix products", "sums over neighbors", "activations", "optimizer", "overhead of launching operations"),
)
#: The least predicted gain of a named knob, and the most knobs that are named: a line of text.
_LEAST_GAIN, _MOST_NAMED = 1.05, 4


def asked(request: TuneRequest) -> Iterator[tuple[str, str]]:
    """Yields the options of the request, a name and a text each."""
    weights = zip(("speed", "memory", "accuracy"), request.priority.weights, strict=True)
    speed = "seconds to the target" if request.priority.time else "throughput"
    yield "priority", f"{', '.join(f'{name} {weight:.0%}' for name, weight in weights)}; speed means {speed}"
    limit = request.memory_limit
    yield "memory limit", format_size(limit) if isinstance(limit, int) else "the baseline's" if limit else "none"
    if request.host_memory_limit is not None:
        yield "host memory limit", format_size(request.host_memory_limit)
    if request.target_accuracy is None:
        yield "largest accuracy drop", f"{request.max_accuracy_drop:g} points"
    else:
        yield "target", f"{request.target_accuracy:g}"
    yield "budget", describe_budget(request)
    yield "engine", request.engine
    yield from ((f"{name} fixed at", str(value)) for name, value in request.fixed)
    yield from ((f"{name} between", f"{low} and {high}") for name, low, high in request.ranges)
    yield "seed", str(request.seed)


def time_view(study: StoredStudy) -> dict[str, Any]:
    """Returns how long the study took, what is left of its budget, and how many trials it has made."""
    trials = () if study.measured is None else study.measured.trials
    budget = Budget(study.request.budget, spent_s=study.state.elapsed_s)
    for trial in trials:
        if trial.counts:
            budget.record()
    return {
        "elapsed_s": study.state.elapsed_s,
        "elapsed": format_duration(study.state.elapsed_s),
        "left": budget.describe(),
        "left_s": None if budget.in_trials else max(budget.left_s, 0.0),
        "trials": budget.trials,
        "failures": sum(trial.measurement.metrics is None for trial in trials),
    }


def summary_view(measured: Measured | None, problem: str) -> dict[str, Any]:
    """Returns baseline and best so far in words, the gains and changes of the best, and a finished tune's summary.

    Args:
        measured: The measurements.
        problem: Why the tune ended without a choice; "" if it did not.
    """
    if measured is None:
        return {"default": None, "best": None, "gains": [], "changes": [], "answer": None, "problem": problem}
    tuned, front = measured.tune.tuned, measured.front
    answer = None if tuned is None else summary(tuned, front, measured.history.tried, measured.tune.state.elapsed_s)
    described = {
        name: None
        if index is None
        else describe_figures(measured.rows[index].measured, front.memory, front.speed, front.metric, front.target)
        for name, index in (("default", measured.default), ("best", measured.best))
    }
    shown = None if answer is None else answer._asdict() | {"table": [list(line) for line in answer.table]}
    best, task = measured.best, measured.history.study.setting.task
    changes = () if best is None else changes_of(measured.rows[best].config, task)
    changed = {"gains": gain_views(measured), "changes": [one._asdict() for one in changes]}
    return described | changed | {"answer": shown, "problem": problem}


def importance_view(measured: Measured) -> dict[str, Any] | None:
    """Returns the knobs with an effect, the most important first, and how far their SHAP values explain predictions.

    `knobs` have a name, the mean effects on `speed`, `memory` (factors) and `accuracy` (points), and their `help`. None
    before the first exploration has ended, and for tunes of older versions.
    """
    found = read_importance(measured.tune.folder)
    if found is None:
        return None
    helps = {knob.name: knob.help for knob in KNOBS}
    knobs = [
        {"name": name, "help": helps.get(name, ""), "speed": 2**speed, "memory": 2**memory, "accuracy": accuracy}
        for name, speed, memory, accuracy in zip(found.knobs, found.speed, found.memory, found.accuracy, strict=True)
        if max(speed, memory, accuracy) > 0
    ]
    return {"knobs": knobs, "explained": list(found.explained), "trials": found.trials}


def regret_views(measured: Measured) -> list[dict[str, Any]]:
    """Returns a dict per trial: the seconds that all trials took by then, the best measured so far, and its regret.

    The regret is the priority's score of the best of all trials minus that of the best so far, both as judged now. It
    is None before a trial keeps the limits. The score of the best possible configuration is not known.
    """
    history = measured.history
    eligible = history.eligible()
    scores = history.objectives.measured_score([one.figures for one in eligible]) if eligible else ()
    score_of = {id(one.trial): float(score) for one, score in zip(eligible, scores, strict=True) if np.isfinite(score)}
    most, took_s, best, at = max(score_of.values(), default=0.0), 0.0, -np.inf, None
    found = []
    for index, trial in enumerate(measured.trials):
        took_s += trial.measurement.seconds
        score = score_of.get(id(trial), -np.inf)
        if score > best:
            best, at = score, index
        found.append({"index": index, "took_s": took_s, "best": at, "regret": None if at is None else most - best})
    return found


def predicted_front(measured: Measured) -> dict[str, Any]:
    """Returns the feasible front that the last search predicted, or that of the trials if no search has stored one.

    `points` have each metric's mean, low and high; `name` describes the front.
    """
    found = read_predicted_front(measured.tune.folder)
    if found is not None:
        return {"name": "predicted front of the last search", "points": found}
    return {"name": "front of the trials' predictions", "points": _of_trials(measured)}


def _of_trials(measured: Measured) -> list[Predicted]:
    """Returns the feasible front of the predictions that were made for the trials before they ran."""
    history = measured.history
    known = [i for i, trial in enumerate(measured.trials) if set(METRICS) <= set(trial.predicted)]
    if not known:
        return []

    def bound(name: str) -> NDArray[np.float64]:
        return np.array([[measured.trials[i].predicted[metric][name] for metric in METRICS] for i in known])

    prediction, objectives = Prediction(bound("mean"), bound("low"), bound("high")), history.objectives
    if history.reference is not None:  # as the search judges them
        due_s = history.reference.budget_s if history.latest_s is None else history.latest_s
        prediction = dataclasses.replace(prediction, default_accuracy=history.reference.val_accuracy, budget_s=due_s)
    kept = np.flatnonzero(objectives.limits.violation(prediction) == 0)
    kept = kept[non_dominated(objectives.costs(prediction)[kept])] if len(kept) else kept
    return [measured.trials[known[i]].predicted for i in kept]


class _Step(NamedTuple):
    """A trial by its index, with its measured seconds per mini-batch of sampling, gathering, copying and training."""

    trial: int
    stages: tuple[float, ...]


def step_views(measured: Measured) -> dict[str, Any]:
    """Returns the seconds per mini-batch of `PARTS`, by trial, and the knobs that would help the default and the best.

    Sampling, gathering, copying and training were measured. Training is split in proportion to the terms of the
    analytic model, whose factors are fitted to the study's own trials. If stages overlap, their sum exceeds a step's
    duration.
    """
    steps = [_Step(i, _stages(one.metrics)) for i, one in measured.judged.items()]
    if not steps:
        return {"parts": list(PARTS), "trials": [], "helps": []}
    setting = measured.history.study.setting
    columns = as_columns([measured.trials[one.trial].measurement.config for one in steps])
    stages = np.array([one.stages for one in steps])[:, [0, 1, 3]]
    nothing_else = np.full((len(steps), len(OUTPUTS)), np.nan)
    parts, groups = [], by_task(columns, setting)
    for own, places in groups:
        some = {name: values[places] for name, values in columns.items()}
        work = expected_work(some, own)
        parts.append(MeasuredSetting(own, setting, some, work, nothing_else[places], stages[places]))
    # Factors fitted to the trials, or the equations' own if there are few trials.
    calibration, split = own_calibration(parts, UNCALIBRATED) or UNCALIBRATED, np.empty((len(steps), 5))
    for (_, places), part in zip(groups, parts, strict=True):
        split[places] = _split(part, calibration)
    trials = [
        {
            "index": one.trial,
            "seconds": [*one.stages[:3], *(one.stages[3] * shares).tolist()],
            "batches_per_epoch": measured.judged[one.trial].metrics.batches_per_epoch,
        }
        for one, shares in zip(steps, split, strict=True)
    ]
    named = dict.fromkeys(index for index in (measured.default, measured.best) if index is not None)
    return {"parts": list(PARTS), "trials": trials, "helps": [_helps(measured, index, calibration) for index in named]}


def _stages(metrics: Metrics) -> tuple[float, ...]:
    found = metrics.stage_seconds
    return found.sample, found.gather, found.transfer, found.train


def _split(rows: MeasuredSetting, calibration: Calibration) -> np.ndarray:
    """Returns the shares of training's parts, float64, shape (n_configs, 5), each row's sum 1."""
    terms = train_terms(rows.work.cost, rows.setting.hardware) * np.array(calibration.train)
    return np.asarray(terms / terms.sum(axis=1, keepdims=True))


def _helps(measured: Measured, index: int, calibration: Calibration) -> dict[str, Any]:
    """Returns the single knobs by which a trial's epochs per second would gain most, by the analytic model."""
    config = measured.trials[index].measurement.config
    changes = [
        (knob, value)
        for knob in measured.history.space.systems.knobs
        for value in knob.values
        if value != getattr(config, knob.name) and _may_help(measured, knob.name, getattr(config, knob.name), value)
    ]
    others = [config.replace(**{knob.name: value}).canonical() for knob, value in changes]
    setting = costly(config.searched, measured.history.study.setting)
    found = analytic_metrics(as_columns([config, *others]), setting, calibration)
    gains = found["throughput_epochs_per_s"][1:] / found["throughput_epochs_per_s"][0]
    best: dict[str, dict[str, Any]] = {}
    for (knob, value), gain in zip(changes, gains.tolist(), strict=True):
        if gain >= max(_LEAST_GAIN, best.get(knob.name, {"gain": 0.0})["gain"]):
            best[knob.name] = {"knob": knob.name, "words": _words(knob, value), "gain": gain}
    ranked = sorted(best.values(), key=lambda one: -one["gain"])
    return {"index": index, "knobs": ranked[:_MOST_NAMED]}


def _may_help(measured: Measured, name: str, own: Any, value: Any) -> bool:
    """Returns whether to name a change from a knob's `own` value to `value`.

    A batch has at most the train nodes. If trials changed the knob likewise (a number in the same direction), one of
    them must have kept the limits and reached the target.
    """
    if name == "batch_size" and value > measured.history.study.setting.graph.num_train:
        return False
    is_number = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (own, value))

    def is_alike(found: Any) -> bool:
        if is_number and found is not None:
            return bool(found > own) if value > own else bool(found < own)
        return bool(found == value)

    tried = [row.feasible for row in measured.rows.values() if is_alike(getattr(row.config, name))]
    return not tried or any(tried)


def _words(knob: Knob, value: Any) -> str:
    """Returns the text of a change; a knob's own words may only continue another knob's, or hide its default."""
    words = describe_knob(knob, value)
    return f"{knob.name} {value}" if value == knob.default or words.startswith(" ") else words


UNPROVEN = "gain not established"
SINGLE = "not verified"


def gain_views(measured: Measured) -> list[dict[str, Any]]:
    """Returns a dict per figure of the best, or of the best other than the baseline, over the baseline.

    Each has `name`; `label`, `text` and `range` in words; `ends`, the figures of the baseline and of the other one, or
    None; `unit` (x or points); `median`, `low` and `high`; `verdict` (better, worse or unclear); `settled`, whether the
    shown range leaves out 1 (0 for points); and `badges`, the reasons to doubt it. Numbers are turned so that more is
    better: memory is the baseline's over its own. Low and high are for one more training of both. They are None if it
    was measured once, or is a lower bound. The verdict is by the range of the median. The largest weight comes first.
    """
    tuned, other = measured.tune.tuned, measured.best
    if tuned is not None and tuned.no_gain is not None:
        lost = NoGain.from_dict(tuned.no_gain)
        other = next((i for i in measured.rows if measured.rows[i].config == lost.config), None)
        found = _compared(lost.against, measured)
        found = [one | {"verdict": "unclear"} for one in found]
    elif tuned is not None and tuned.against_default is not None:
        found = _compared(Comparison.from_dict(tuned.against_default), measured)
    else:
        found = _so_far(measured)
    priority = measured.history.objectives.priority
    weights = dict.fromkeys(("time", "throughput"), priority.throughput)
    weights |= {"memory": priority.memory, "accuracy": priority.accuracy}
    own = "time" if priority.time else "throughput"
    ends = _ends(measured, other)
    found = [one | {"ends": ends.get(one["name"]), "settled": _is_settled(one)} for one in found]
    return sorted(found, key=lambda one: (-weights[one["name"]], one["name"] != own))


def _is_settled(gain: dict[str, Any]) -> bool:
    """Returns whether the shown range of a gain leaves out "no change", so that the page may color it."""
    if gain["low"] is None:
        return True
    shown = Spread(gain["median"], gain["low"], gain["high"], 2)
    return not doubts(shown, LEAST_PAIRS, none=1.0 if gain["unit"] == "x" else 0.0)


def _ends(measured: Measured, other: int | None) -> dict[str, list[str]]:
    """Returns the figures of the baseline and of the trial `other` as text, by the name of the gain."""
    if measured.default is None or other is None:
        return {}
    front = measured.front

    def texts(figures: Figures) -> dict[str, str]:
        _, _, memory, quality = front.texts(figures)
        speed = show_speed(figures.throughput_epochs_per_s)
        return {"time": show_seconds(figures, " s"), "throughput": speed, "memory": memory, "accuracy": quality}

    before, after = (texts(measured.rows[index].measured) for index in (measured.default, other))
    return {name: [before[name], after[name]] for name in before}


def _compared(against: Comparison, measured: Measured) -> list[dict[str, Any]]:
    """Returns the gains of a verification."""
    front, found = measured.front, []
    badges = list(against.doubts())
    if against.missed:
        badges.append(f"target missed with {count(against.missed, 'seed')}")
    if against.time is not None and front.target is not None:
        label = f"{against.time.sooner_word} at {front.metric.show(front.target)}"
        found.append(_gain("time", label, against.time, badges, against.at_least, against.time_again))
    again = against.throughput_again
    found.append(_gain("throughput", "epochs per second", against.throughput, badges, again=again))
    found.append(_memory(against.memory, against.memory_most))
    if against.accuracy is not None:
        label = f"points of validation {front.metric.label}"
        found.append(_gain("accuracy", label, against.accuracy, [], unit="points"))
    return found


def _so_far(measured: Measured) -> list[dict[str, Any]]:
    """Returns the gains of the best trial so far over the baseline's; [] if they are one configuration."""
    if measured.default is None or measured.best is None:
        return []
    baseline, best = (measured.judged[index] for index in (measured.default, measured.best))
    if baseline.trial.measurement.config == best.trial.measurement.config:
        return []
    own, other = best.figures, baseline.figures
    badges = [SINGLE]
    if best.metrics.disturbed_windows or baseline.metrics.disturbed_windows:
        badges.append(DISTURBED)
    found, front = [], measured.front
    if own.seconds_to_accuracy is not None and other.seconds_to_accuracy is not None and front.target is not None:
        ratio = other.seconds_to_accuracy / own.seconds_to_accuracy
        spread = Spread(ratio, ratio, ratio, 1)
        found.append(_gain("time", f"{spread.sooner_word} at {front.metric.show(front.target)}", spread, badges))
    found.append(_gain("throughput", "epochs per second", own.throughput.over(other.throughput), badges))
    found.append(_memory(getattr(own, front.memory) / getattr(other, front.memory), None))
    return found


def _gain(
    name: str,
    label: str,
    spread: Spread,
    badges: list[str],
    before: str = "",
    again: Spread | None = None,
    unit: str = "x",
) -> dict[str, Any]:
    """Returns a gain: `spread` decides, and `again`, which has the range of one more training, is shown."""
    none, show = (1.0, show_ratio) if unit == "x" else (0.0, "{:+.2f}".format)
    repeated, verdict = spread.repeats > 1, "unclear"
    if repeated and (spread.low > none or spread.high < none):
        verdict = "better" if spread.low > none else "worse"
    spread = again or spread
    ranged = spread.repeats > 1
    low, high = (spread.low, spread.high) if ranged else (None, None)
    return {
        "name": name,
        "label": label,
        "text": before + show(spread.median),
        "range": f"{show(spread.low)} to {show(spread.high)}" if ranged else "",
        "unit": unit,
        "median": spread.median,
        "low": low,
        "high": high,
        "verdict": verdict,
        "badges": [*([UNPROVEN] if repeated and verdict == "unclear" else []), *badges],
    }


def _memory(ratio: float, most: float | None) -> dict[str, Any]:
    """Returns the gain in peak memory: `ratio` to the baseline's, and the upper bound of this ratio."""
    change = round(100 * (ratio - 1))
    worst = ratio if most is None else most
    verdict = "better" if worst < 1 else "worse" if ratio > 1 else "unclear"
    if not change:
        verdict = "unclear"
    at_most = f"at most {100 * (worst - 1):+.0f}%" if round(100 * (worst - ratio)) else ""
    return {
        "name": "memory",
        "label": "peak memory",
        "text": show_percent(ratio),
        "range": at_most,
        "unit": "x",
        "median": 1 / ratio,
        "low": 1 / worst if at_most else None,
        "high": 1 / ratio if at_most else None,
        "verdict": verdict,
        "badges": [UNPROVEN] if change < 0 and verdict == "unclear" else [],
    }
