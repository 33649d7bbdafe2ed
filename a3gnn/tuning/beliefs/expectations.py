"""Expectations of a tune's configurations: the surrogate's predictions, costs of trials, and the believed best."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.learning_curve import CONFIRMED
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.prediction import Prediction
from a3gnn.setting import setting_key
from a3gnn.space import ENUMERABLE, Rows
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.quality import next_rung_s
from a3gnn.tuning.study.trial import JudgedTrial, Trial
from a3gnn_surrogate.known_curves import KnownDefault
from a3gnn_surrogate.search_points import NO_SEARCH, SearchPoints
from a3gnn_surrogate.surrogate import Surrogate

#: Rows sampled from a space that is too large to enumerate; a descent starts from the best of them. Guess.
_SAMPLE_SIZE = 20_000
#: `fit_surrogate` reuses slow parts while the corpus has this many rows per row of the tune. Guess.
_CORPUS_SHARE = 4
T = TypeVar("T")


class TrialCost(NamedTuple):
    """The cost of a tune's trials."""

    around_s: float  # seconds of a trial without its curve: its process, the graph, warm-up and timed windows
    eval_share: float = 0.0  # seconds of evaluation per second of a curve's training
    rehearsal_s: float = 0.0  # seconds that a trial without a new curve trains for its peak alone

    @classmethod
    def of(cls, history: History) -> Self:
        """Returns the cost of the successful trials of `history`, by their median; before, only a timing."""
        measured = history.measured()
        if not measured:
            return cls(history.study.plan.timed_seconds)
        trained = sum(one.metrics.curve_train_seconds for one in measured)
        evaluated = sum(one.metrics.curve_eval_seconds for one in measured)
        around = (
            one.trial.measurement.seconds
            - one.metrics.curve_train_seconds
            - one.metrics.curve_eval_seconds
            - one.metrics.rehearsal_seconds
            for one in measured
        )
        rehearsals = [one.metrics.rehearsal_seconds for one in measured if one.metrics.rehearsal_seconds]
        return cls(
            max(median(around), 0.0), evaluated / trained if trained else 0.0, median(rehearsals) if rehearsals else 0.0
        )

    def seconds(self, trained_s: float) -> float:
        """Returns the seconds of a trial that trains its curve for `trained_s` seconds."""
        return self.around_s + trained_s * (1 + self.eval_share)


def fit_surrogate(history: History, like: Surrogate | None = None) -> Surrogate:
    """Returns a surrogate fitted to the corpus and to the tune's trials.

    The parts that are slow to fit are taken from `like`, a surrogate fitted to the corpus and fewer trials, as long as
    the corpus has at least `_CORPUS_SHARE` times as many rows as the tune.

    Stored rows of the tune's own setting are judged by this tune's budget and target, not by those of the tune that
    measured them. The tune's own trials are corrected for the drift of the machine, even if the store contains them.
    """
    study, reference = history.study, history.reference
    judged_by = {setting_key(study.setting): reference} if reference and history.has_default_reference else None
    own = {trial.measurement.id: trial.undrifted for trial in history.trials}
    rows = [*(own.get(row.id, row) for row in study.corpus), *own.values()]
    if like is not None and len(study.corpus) < _CORPUS_SHARE * len(history.trials):
        like = None
    search = SearchPoints.of(study.setting, study.request.search) if history.trials else NO_SEARCH
    return Surrogate(seed=study.request.seed).fit(rows, study.setting.graph.fingerprint, judged_by, like, search)


def predict(
    surrogate: Surrogate, history: History, configs: Sequence[TrainConfig] | Mapping[str, NDArray[Any]]
) -> Prediction:
    """Returns the prediction of configurations, or of the columns of a space (`SearchSpace.columns`).

    Args:
        surrogate: Fitted to this or an earlier history of the tune.
        history: Its reference provides the accuracy and seconds that differences are predicted from; its study, the
            setting.
        configs: Configurations or columns.
    """
    return surrogate.predict(configs, history.study.setting, _known_default(history))


def _known_default(history: History) -> KnownDefault | None:
    reference, figures = history.reference, history.reference_figures
    if reference is None or figures is None:
        return None
    return KnownDefault.of(reference, figures.seconds_to_accuracy)


def expected_trial_s(surrogate: Surrogate, history: History, config: TrainConfig, drift: float = 1.0) -> float:
    """Returns the expected seconds of a trial of `config`, as in `expected_trials_s`; in a race, of its next round."""
    if history.study.request.races:
        end_s, done_s = next_rung_s(history, config)
        return TrialCost.of(history).seconds((end_s - done_s) / drift)
    known = np.array([history.curve(config) is not None])
    return float(expected_trials_s(history, known, predict(surrogate, history, [config]), drift)[0])


def expected_trials_s(
    history: History, known: NDArray[np.bool_], prediction: Prediction, drift: float = 1.0
) -> NDArray[np.float64]:
    """Returns the expected seconds of trials, for timing and the curve, float64, shape (n_configs,).

    The reference's curve takes at most its share of the budget. Other curves end with the reference's seconds. If their
    plan has a target, they end there if that is expected earlier, or after `History.due_s`. A known curve is not
    trained again. The curve takes longer on a machine that `drift` has made slower. If the reference does not reach the
    target, the time until others reach it can't be predicted.

    Args:
        history: Its trials provide the cost so far.
        known: Whether a curve with the learning key of each configuration is known, bool, shape (n_configs,).
        prediction: Prediction of the configurations.
        drift: The machine's speed over its speed when the reference was measured.
    """
    cost, reference = TrialCost.of(history), history.reference
    if reference is None:
        return np.full(len(prediction), cost.seconds(history.study.reference_curve.most_seconds))
    trained_s = np.full(len(prediction), reference.budget_s)
    ends_at_target = not history.study.request.priority.accuracy_counts  # as `trial_plan` says
    if ends_at_target and prediction.budget_s is not None:
        trained_s = np.minimum(trained_s, CONFIRMED * prediction.column("seconds_to_accuracy"))
    if ends_at_target:
        trained_s = np.minimum(trained_s, history.due_s)
    trained_s = trained_s / drift * (1 + cost.eval_share)
    return cost.around_s + np.where(known, cost.rehearsal_s, trained_s)


def expected_required_s(history: History) -> float:
    """Returns the most seconds that the indispensable trials are expected to take.

    These are the default's trial, unless it is measured already, and a whole training.
    """
    cost = TrialCost.of(history)
    if history.reference is not None:
        return cost.seconds(history.reference.budget_s)
    return 2 * cost.seconds(history.study.reference_curve.most_seconds)


def smallest_memory(surrogate: Surrogate, history: History) -> TrainConfig | None:
    """Returns the configuration with the least predicted memory, except those whose memory is known.

    Candidates are the untried configurations and those that ran out of memory. Among equals, the fastest wins. None if
    no candidate is left. In a space that is too large to enumerate, a descent in steps of one knob starts from the best
    of a sample.
    """
    space = history.space
    if space.num_distinct <= ENUMERABLE:
        found = _least_memory(surrogate, history, space.enumerate())
        return None if found is None else space.decode(found)
    found, before = _least_memory(surrogate, history, space.sample(_SAMPLE_SIZE, 0)), None
    while found is not None and (before is None or (found != before).any()):
        found, before = _least_memory(surrogate, history, np.vstack([found, space.neighbors(found)])), found
    return None if found is None else space.decode(found)


def _least_memory(surrogate: Surrogate, history: History, rows: Rows) -> Rows | None:
    """Returns the row of `rows`, shape (n, n_knobs), that `smallest_memory` prefers; None if there is no candidate."""
    space = history.space
    rows = unmeasured(rows, settled_rows(history))
    prediction = predict(surrogate, history, space.columns(rows))
    throughput, memory = prediction.column("throughput_epochs_per_s"), prediction.column(history.objectives.memory)
    best = rows[np.lexsort((-throughput, memory))]
    return next((row for row in best if space.can_make(space.decode(row))), None)


def believed(history: History, surrogate: Surrogate) -> list[JudgedTrial]:
    """Returns the trials of `History.ranked` with predicted figures, best prediction first.

    Among many single measurements, the best one was also lucky, so throughput and memory are predicted instead. The
    learning curve is measured, and counts at the predicted pace. Measurements decide which trials are eligible.

    Args:
        history: Of the tune so far.
        surrogate: Fitted to `history`; a surrogate that has not seen a trial can't correct for its luck.
    """
    judged = history.ranked()
    if not judged:
        return []
    prediction = predict(surrogate, history, [one.trial.measurement.config for one in judged])
    return history.by_score([_as_predicted(one, history, prediction, row) for row, one in enumerate(judged)])


def _as_predicted(one: JudgedTrial, history: History, prediction: Prediction, row: int) -> JudgedTrial:
    metrics = dataclasses.replace(
        one.metrics,
        throughput_epochs_per_s=float(prediction.column("throughput_epochs_per_s")[row]),
        throughput_replicates=(),
        peak_host_bytes=round(prediction.column("peak_host_bytes")[row]),
        peak_device_bytes=round(prediction.column("peak_device_bytes")[row]),
    )
    return one._replace(figures=Figures.of(metrics, history.curve(one.trial.measurement.config), history.reference))


def unmeasured(rows: Rows, measured: set[bytes]) -> Rows:
    """Returns `rows` without those whose bytes are in `measured`."""
    keep = [row.tobytes() not in measured for row in rows]
    return rows[np.array(keep, dtype=np.bool_)]


def tried_rows(history: History) -> set[bytes]:
    """Returns the rows of all trials, as bytes, without those whose training may go on (`History.outgrown`)."""
    return _rows(history, (trial for trial in history.trials if not history.outgrown(trial)))


def settled_rows(history: History) -> set[bytes]:
    """Returns the rows of the trials that did not run out of memory, as bytes."""
    return _rows(history, (t for t in history.trials if not _ran_out_of_memory(t.measurement.outcome)))


def _rows(history: History, trials: Iterable[Trial]) -> set[bytes]:
    rows = (history.row(trial.measurement.config) for trial in trials)
    return {row.tobytes() for row in rows if row is not None}


def _ran_out_of_memory(outcome: Metrics | Failure) -> bool:
    return isinstance(outcome, Failure) and outcome.kind is FailureKind.OUT_OF_MEMORY


def learning_differently(items: Iterable[T], config: Callable[[T], TrainConfig], count: int) -> list[T]:
    """Returns the first `count` items with distinct learning keys; if there are fewer, adds the first duplicates.

    Args:
        items: Most wanted first; not read further than needed.
        config: Returns an item's configuration.
        count: Most items to return.
    """
    seen, different, others = set(), list[T](), list[T]()
    for item in items:
        key = config(item).learning_key()
        (others if key in seen else different).append(item)
        seen.add(key)
        if len(different) == count:
            break
    return [*different, *others][:count]
