"""`--priority quality`: the recipe's search, and how long the trainings of its race are.

Of 42 published winners on graphs such as in docs/benchmarks, 74 % have a norm, 64 % residual connections and 69 %
more than two layers, in combinations: a norm alone, or depth alone, often gains nothing. So whole shapes race, and
single values change later, around the best of them and the baseline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.knobs import ALL
from a3gnn.option_names import option
from a3gnn.task import Task
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import RACE, Trial
from a3gnn.units import count, short_duration

#: The dropout, rate and weight decay of Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional
#: Networks", 2017, section 5.2. The best shape with norms beside it ended 1.5 points lower on cora_ml and .7 on acm.
_PLAIN: Mapping[str, Any] = {"layers": 2, "norm": "none", "residual": False, "dropout": 0.5, "weight_decay": 5e-4}
#: The shapes that race: layers with the two ways of normalizing that published winners have, and plain ones. Unlike
#: ones come first, for budgets that end within the first round. The deepest one has less dropout: after 140 steps on
#: minesweeper, 12 layers are 4 points behind with .35, and ahead of all others with .2. 8 layers with layer norms,
#: which it replaces, came last by 26 points there and by 16 on tolokers.
SHAPES: tuple[Mapping[str, Any], ...] = (
    {"layers": 4, "norm": "batch", "residual": True},
    _PLAIN,
    {"layers": 8, "norm": "batch", "residual": True},
    {"layers": 4, "norm": "layer", "residual": False},
    {"layers": 2, "norm": "layer", "residual": False},
    {"layers": 2, "norm": "batch", "residual": True},
    {"layers": 3, "norm": "batch", "residual": True},
    {"layers": 12, "norm": "batch", "residual": True, "dropout": 0.2},
)
#: Models whose layers map the node itself apart from its neighbors; the others get linear residuals. Measured on four
#: graphs (docs/design/tuning.md).
_OWN_MAP = ("sage", "transformer")
#: The models that race if the task's is among them, and the shapes of the other one by their places, where `sage` came
#: last or next to last on three graphs. On squirrel_filtered, 4 layers of `gcn` with linear residuals end 5 to 7 points
#: above any shape of `sage`, and in the best shape of `sage` 3 points below it. Attention is several times as slow.
KINDS = ("sage", "gcn")
_OF_THE_OTHER: Mapping[int, Mapping[str, Any]] = {
    3: {"layers": 4, "norm": "batch", "residual": True},
    5: _PLAIN,
}
#: The place of the plain shape with linear residuals, where a model without a map of the node itself races.
_MAPPED = 6
#: Values of the other fields in which all shapes race: narrow, so that a training has hundreds of epochs. After 120
#: steps of 4 layers, this rate was ahead of .005 by 1.1, .1 and .2 points on minesweeper, actor and amazon_computers
#: and .6 behind on squirrel_filtered (two seeds each); dropout .2 was ahead on minesweeper alone.
START: dict[str, Any] = {"hidden_channels": 64, "dropout": 0.35, "learning_rate": 0.01, "weight_decay": 0.0}
#: Numbers in steps around the best shape: the winners' (docs above), and what lies between. Those that change how long
#: a step takes come last.
STEPS: Mapping[str, tuple[Any, ...]] = {
    "dropout": (0.0, 0.2, 0.35, 0.5, 0.7),
    "learning_rate": (0.001, 0.002, 0.005, 0.01, 0.02),
    "weight_decay": (0.0, 5e-5, 5e-4),
    "hidden_channels": (32, 64, 128, 256, 512),
    "layers": (2, 3, 4, 8, 12),
}
#: Choices whose other values are steps, too.
CHOICES = ("norm", "residual", "model")
#: Rounds of a race: a training of each takes twice as long as one of the round before.
RUNGS = 4
#: Steps that a training of the first round takes at least, and those that a longest one needs to end near its best.
#: On minesweeper, shapes are told apart after 40 steps; 120 epochs of the best were still rising.
_TOLD_APART, _NEAR_BEST = 40, 120
#: Most steps of the baseline that a step on the whole graph may take: a guess between 7.5 (nell), where the whole graph
#: does well, and 11 and over 30 (credit_default, wordnet_en), where mini-batches do better (docs/design/tuning.md).
_WHOLE_STEPS = 8
#: Most seconds that the race's trials take beside training and evaluation, as a share of the budget: trials get
#: a good half of the budget, and the race trains for a third of it.
_AROUND_SHARE = 1 / 6


def shapes_of(task: Task, searches_model: bool = True) -> tuple[Mapping[str, Any], ...]:
    """Returns the shapes that race for `task`: some of another model if its own is one of `KINDS`.

    Args:
        task: The task.
        searches_model: Whether the search has the model; it has not if edges have values.
    """
    searches_model, own = searches_model and task.model in KINDS, task.model
    raced, mapped = [(shape, own) for shape in SHAPES], own
    if searches_model:
        other, mapped = next(kind for kind in KINDS if kind != own), "gcn"
        raced = [(_OF_THE_OTHER[i], other) if i in _OF_THE_OTHER else one for i, one in enumerate(raced)]
    if mapped not in _OWN_MAP:
        raced[_MAPPED] = {**_PLAIN, "residual": True}, mapped
    return tuple(with_model(shape, model) | ({"model": model} if searches_model else {}) for shape, model in raced)


def with_model(values: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Returns `values` for `model`: residual connections map the node's row where its layers do not."""
    residual = values["residual"] and (True if model in _OWN_MAP else "linear")
    return {**values, "residual": residual}


def recipe_search(task: Task) -> dict[str, list[Any]]:
    """Returns the search of the recipe: for each name the values of the shapes, the steps and `task` itself.

    Names come in the order of `START`, because the draws of engines depend on it.
    """
    found: dict[str, dict[Any, None]] = {}
    for values in (*shapes_of(task), *({name: one} for name in (*START, "layers") for one in STEPS[name])):
        for name, value in values.items():
            found.setdefault(name, {})[value] = None
    return {name: list({**values, task.value(name): None}) for name, values in found.items()}


class RaceSize(NamedTuple):
    """The size of a race: its first trial tells what a step and a trial cost here.

    Attributes:
        first: Its first round; each one that is left out halves the shapes.
        steps: Steps of the longest training.
        budget: The budget under which no round is left out and the longest training ends near its best, as text: in
            trials if the request's is and its trainings are long enough, else in seconds.
        measured: The configurations of the first trial and of the one that tells the size, which trained for the
            seconds of round 0.
    """

    first: int
    steps: float
    budget: str
    measured: tuple[TrainConfig, TrainConfig]

    @property
    def shapes(self) -> int:
        """How many shapes race."""
        return len(SHAPES) >> self.first

    def describe(self) -> str:
        """Returns which part of the race the budget holds, and what would hold all; "" if it holds all."""
        if not self.first and self.steps >= _NEAR_BEST:
            return ""
        known = (
            f"{count(self.shapes, 'shape')} of {len(SHAPES)}, and trainings of up to {count(round(self.steps), 'step')}"
        )
        return (
            f"the budget is short for a tune for quality: it holds {known}; {option('budget', self.budget)} holds all"
        )


def baseline_of(history: History) -> Trial | None:
    """Returns the baseline's trial, in RAM or from disk; None if it did not fit, whatever stands in for it."""
    return history.reference_trial if history.has_default_reference else None


def trains_whole(history: History) -> bool:
    """Whether shapes train on the whole graph, where the space has it.

    The first trial does. If it fails, or a step of it takes more than `_WHOLE_STEPS` of the baseline's, all shapes
    train in mini-batches as the baseline's.
    """
    first = next((one for one in history.trials if one.reason == RACE), None)
    has_others = history.space.knob("batch_size").values != (ALL,)
    if first is None or first.measurement.config.batch_size != ALL or not has_others:
        return True
    whole = first.measurement.metrics  # their drift changes with later timings
    baseline = baseline_of(history)
    own = None if baseline is None else baseline.measurement.metrics
    if whole is None or own is None:
        return whole is not None
    return whole.pace.batches_per_s * _WHOLE_STEPS >= own.pace.batches_per_s


def race_of(history: History) -> RaceSize | None:
    """Returns the size of the race of `history`; None before its first successful trial that trains as all do."""
    raced, is_whole = [one for one in history.trials if one.reason == RACE], trains_whole(history)
    alike = (one for one in raced if is_whole or one.measurement.config.batch_size != ALL)
    trial = next((one for one in alike if one.metrics is not None), None)
    metrics = None if trial is None else trial.measurement.metrics  # its drift changes with later timings
    if trial is None or metrics is None:
        return None
    total, whole_s = history.study.request.budget, history.study.longest_s
    counted, pace = isinstance(total, int), metrics.pace
    around_s = trial.measurement.seconds - metrics.rehearsal_seconds
    around_s -= metrics.curve_train_seconds + metrics.curve_eval_seconds

    def trials(first: int) -> int:  # of a race that starts with this round
        return sum(len(SHAPES) >> rung for rung in range(first, RUNGS))

    def least_s(first: int) -> float:  # the budget in seconds of such a race
        told_apart_s = pace.seconds(_TOLD_APART) * whole_s / rung_s(history, first)
        return max(trials(first) * around_s / _AROUND_SHARE, told_apart_s)

    longest_s = rung_s(history, RUNGS - 1)
    steps = pace.batches(longest_s)
    all_s = max(least_s(0), pace.seconds(_NEAR_BEST) * whole_s / longest_s)
    return RaceSize(
        next(
            (rung for rung in range(RUNGS - 2) if (2 * trials(rung) if counted else least_s(rung)) <= total), RUNGS - 2
        ),
        steps,
        str(2 * trials(0)) if counted and steps >= _NEAR_BEST else short_duration(all_s),
        (raced[0].measurement.config, trial.measurement.config),
    )


def reached_rung(history: History, config: TrainConfig) -> int:
    """Returns the last round that `config`, which is canonical, has trained for; -1 without a successful trial."""
    race, rung = race_of(history), -1
    trials = sum(trial.measurement.config == config and trial.metrics is not None for trial in history.trials)
    for number in range(trials):
        starts = 0 if race is None or (config in race.measured and not number) else race.first
        rung = max(rung + 1, starts)
    return rung


def rung_s(history: History, rung: int) -> float:
    """Returns the seconds of training at the end of the round `rung`, from 0."""
    return history.study.quality_s * 2.0 ** (min(rung, RUNGS - 1) - RUNGS + 1)


def next_rung_s(history: History, config: TrainConfig) -> tuple[float, float]:
    """Returns the seconds at which the next trial of `config` ends, and the seconds that it has been trained for."""
    race, reached = race_of(history), reached_rung(history, config.canonical())
    following = max(reached + 1, 0 if race is None else race.first)
    return rung_s(history, following), rung_s(history, reached) if reached >= 0 else 0.0
