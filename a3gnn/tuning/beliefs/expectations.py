"""What the surrogate expects of the configurations of a tune."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.prediction import Prediction
from a3gnn.search.searchable import ENUMERABLE
from a3gnn.space import Rows
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import JudgedTrial, Trial
from a3gnn_surrogate.known_default import KnownDefault
from a3gnn_surrogate.points import setting_key
from a3gnn_surrogate.surrogate import Surrogate

#: Seconds that a trial takes beside its training and timing, before any was measured: its process, the graph, the
#: first mini-batches. Guess.
_START_S = 2.0


class TrialCost(NamedTuple):
    """What trials of a tune take.

    Attributes:
        around_s: Seconds of a trial without its curve: its process, the graph, warm-up and timed windows.
        eval_share: Seconds of evaluation per second of a curve's training.
    """

    around_s: float
    eval_share: float = 0.0

    @classmethod
    def of(cls, history: History) -> Self:
        """Returns what those of `history` that succeeded took, the median; a guess before there is one."""
        measured = history.measured()
        if not measured:
            return cls(history.study.plan.timed_seconds + _START_S)
        trained = sum(one.metrics.curve_train_seconds for one in measured)
        evaluated = sum(one.metrics.curve_eval_seconds for one in measured)
        around = (
            one.trial.measurement.seconds - one.metrics.curve_train_seconds - one.metrics.curve_eval_seconds
            for one in measured
        )
        return cls(max(median(around), 0.0), evaluated / trained if trained else 0.0)

    def seconds(self, trained_s: float) -> float:
        """Returns the seconds of a trial that trains its curve for `trained_s` seconds."""
        return self.around_s + trained_s * (1 + self.eval_share)


def unmeasured(rows: Rows, measured: set[bytes]) -> Rows:
    """Returns `rows` without those whose bytes are in `measured`."""
    keep = [row.tobytes() not in measured for row in rows]
    return rows[np.array(keep, dtype=np.bool_)]


def tried_rows(history: History) -> set[bytes]:
    """Returns the rows that were tried, as bytes."""
    return _rows(history, history.trials)


def settled_rows(history: History) -> set[bytes]:
    """Returns the rows that were tried and did not run out of memory, as bytes."""
    return _rows(history, (t for t in history.trials if not _ran_out_of_memory(t.measurement.outcome)))


def _rows(history: History, trials: Iterable[Trial]) -> set[bytes]:
    rows = (history.row(trial.measurement.config) for trial in trials)
    return {row.tobytes() for row in rows if row is not None}


def _ran_out_of_memory(outcome: Metrics | Failure) -> bool:
    return isinstance(outcome, Failure) and outcome.kind is FailureKind.OUT_OF_MEMORY


#: Rows sampled from a space that is too large to enumerate, from the best of which a descent starts. Guess.
_SAMPLE_SIZE = 20_000
#: Guess.
_CORPUS_SHARE = 4


def fit_surrogate(history: History, like: Surrogate | None = None) -> Surrogate:
    """Returns a surrogate that is fitted to the corpus and to what the tune measured.

    What takes the time to find is taken over from `like`, which was fitted to the corpus and fewer trials, as long as
    the corpus has `_CORPUS_SHARE` times as many rows as the tune.

    Rows of the tune's own setting that a store holds are judged by this tune's budget and target, not by those of the
    tune that measured them. The tune's own trials are rows without the drift of the machine, stored or not.
    """
    study, reference = history.study, history.reference
    judged_by = {setting_key(study.setting): reference} if reference and history.has_default_reference else None
    own = {trial.measurement.id: trial.undrifted for trial in history.trials}
    rows = [*(own.get(row.id, row) for row in study.corpus), *own.values()]
    if like is not None and len(study.corpus) < _CORPUS_SHARE * len(history.trials):
        like = None
    return Surrogate(seed=study.request.seed).fit(rows, study.setting.graph.fingerprint, judged_by, like)


def predict(
    surrogate: Surrogate, history: History, configs: Sequence[TrainConfig] | Mapping[str, NDArray[Any]]
) -> Prediction:
    """Returns the prediction of configurations, or of the columns that a space gives.

    Args:
        surrogate: Fitted to this or an earlier history of the tune.
        history: Says the accuracy and the seconds from which differences are predicted, and in which setting.
        configs: What to predict.
    """
    return surrogate.predict(configs, history.study.setting, _known_default(history))


def _known_default(history: History) -> KnownDefault | None:
    reference, figures = history.reference, history.reference_figures
    if reference is None or figures is None:
        return None
    return KnownDefault.of(reference, figures.seconds_to_accuracy)


def expected_trial_s(surrogate: Surrogate, history: History, config: TrainConfig, drift: float = 1.0) -> float:
    """Returns the seconds that a trial of `config` is expected to take, as `expected_trials_s` says."""
    known = np.array([history.curve(config) is not None])
    return float(expected_trials_s(history, known, predict(surrogate, history, [config]), drift)[0])


def expected_trials_s(
    history: History, known: NDArray[np.bool_], prediction: Prediction, drift: float = 1.0
) -> NDArray[np.float64]:
    """Returns the seconds that trials are expected to take, timing and the curve, float64, shape (n_configs,).

    The curve of the reference takes its share of the budget at most; another one's ends with the reference's seconds,
    or at the target, if its plan says so and that is expected earlier; a known one is not trained again. Both take as
    much longer as the machine's `drift` makes it slower. Where the reference does not reach the target, nothing tells
    when others do.

    Args:
        history: What trials took so far.
        known: Whether a curve is known of what each configuration learns, bool, shape (n_configs,).
        prediction: Of the configurations.
        drift: The machine's speed over that at which the reference was measured.
    """
    cost, reference = TrialCost.of(history), history.reference
    if reference is None:
        return np.full(len(prediction), cost.seconds(history.study.reference_curve.most_seconds))
    trained_s = np.full(len(prediction), reference.budget_s)
    ends_at_target = not history.study.request.priority.accuracy_counts  # as `trial_plan` says
    if ends_at_target and prediction.budget_s is not None:
        trained_s = np.minimum(trained_s, prediction.column("seconds_to_accuracy"))
    return np.where(known, cost.around_s, cost.around_s + trained_s / drift * (1 + cost.eval_share))


def expected_required_s(history: History) -> float:
    """Returns the seconds that what every tune runs takes at most: the default's trial, and a whole training.

    A default that is measured already is left out.
    """
    cost = TrialCost.of(history)
    if history.reference is not None:
        return cost.seconds(history.reference.budget_s)
    return 2 * cost.seconds(history.study.reference_curve.most_seconds)


def smallest_memory(surrogate: Surrogate, history: History) -> TrainConfig | None:
    """Returns the configuration with the least predicted memory of those whose memory may yet be found out.

    These are the unmeasured ones and those that ran out of memory; of equals, the fastest. None where none is left.
    In a space that is too large to enumerate, it is the least that steps of one knob each reach from the least of a
    sample.
    """
    space = history.space
    if space.num_distinct <= ENUMERABLE:
        found = _least_memory(surrogate, history, space.enumerate())
        return None if found is None else space.decode(found)
    found, before = _least_memory(surrogate, history, space.sample(_SAMPLE_SIZE, 0)), None
    while found is not None and (before is None or (found != before).any()):
        found, before = _least_memory(surrogate, history, np.vstack([found, space.neighbours(found)])), found
    return None if found is None else space.decode(found)


def _least_memory(surrogate: Surrogate, history: History, rows: Rows) -> Rows | None:
    """Returns which of `rows` (n, n_knobs) `smallest_memory` prefers, the first of equals, or None."""
    space = history.space
    rows = unmeasured(rows, settled_rows(history))
    prediction = predict(surrogate, history, space.columns(rows))
    throughput, memory = prediction.column("throughput_epochs_per_s"), prediction.column(history.objectives.memory)
    best = rows[np.lexsort((-throughput, memory))]
    return next((row for row in best if space.can_make(space.decode(row))), None)


def believed(history: History, surrogate: Surrogate) -> list[JudgedTrial]:
    """Returns the trials of `History.ranked`, that first of which the best is predicted, with figures as predicted.

    Of many that were measured once, that which measured best was lucky as well. Throughput and memory are predicted;
    what was learnt is known, and counts at the predicted pace. Which are eligible, measurements say.

    Args:
        history: Of the tune so far.
        surrogate: Fitted to it: one that has not seen a trial knows nothing of how lucky it was.
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
