"""Cross-validates the surrogate and its baselines on rows, and on whole graphs, that they have not seen."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError, unknown_name
from a3gnn.measurement import METRICS, Measurement, distinct
from a3gnn.prediction import Prediction
from a3gnn.seeding import generator
from a3gnn.setting import task_graph_key
from a3gnn_surrogate.columns import MAX_FOLDS, Array
from a3gnn_surrogate.known_curves import KnownCurves, KnownDefault
from a3gnn_surrogate.physics.memory import training_peak
from a3gnn_surrogate.residual import group_folds, row_folds
from a3gnn_surrogate.rows import by_setting, latest_reference_accuracies
from a3gnn_surrogate.surrogate import Surrogate

_TITLES = dict(
    zip(
        METRICS,
        ("throughput", "device memory", "host memory above idle", "accuracy", "seconds to accuracy"),
        strict=True,
    )
)


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one contender on one split and metric, over all held-out rows.

    Attributes:
        contender: One of `CONTENDERS`.
        split: One of `SPLITS`.
        metric: One of `METRICS`; the host's peak is less the known peak of an idle trial.
        r2: R2 of the logarithms, or of accuracy, within settings: between configurations of one task on one graph and
            machine, which is what tuning compares. 1 is perfect, 0 no better than each setting's mean.
        median_error: Median of |predicted / measured - 1|, or of the difference in accuracy.
        coverage: Share of the measurements inside their intervals.
        worst_coverage: Coverage in the setting (a task on a graph and a machine) where it is least.
    """

    contender: str
    split: str
    metric: str
    r2: float
    median_error: float
    coverage: float
    worst_coverage: float


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The scores of a surrogate and its baselines, and the measurements they are from.

    Attributes:
        num_rows: Measurements with metrics.
        num_failures: Failed trials, which are left out.
        graphs: Names of the graphs.
        nominal_coverage: Share of measurements that the intervals should cover.
        notes: Remarks for the reader.
        scores: One per contender, split and metric.
    """

    num_rows: int
    num_failures: int
    graphs: tuple[str, ...]
    nominal_coverage: float
    notes: tuple[str, ...]
    scores: tuple[Score, ...]

    def score(self, contender: str, split: str, metric: str) -> Score:
        """Returns the score of a contender on a split and metric.

        Raises:
            UsageError: The card has none.
        """
        for score in self.scores:
            if (score.contender, score.split, score.metric) == (contender, split, metric):
                return score
        raise UsageError(f"the card has no score of {contender!r} on {split!r} for {metric!r}")

    def to_json(self) -> str:
        """Returns the card as one JSON object."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    def to_markdown(self) -> str:
        """Returns the card as markdown: one table per split."""
        lines = [
            "# Model card of the surrogate",
            "",
            f"{self.num_rows} measurements of {len(self.graphs)} graphs ({', '.join(self.graphs)}); "
            f"{self.num_failures} failed trials left out. Intervals should cover {self.nominal_coverage:.0%}.",
            "",
            *(f"* {note}" for note in self.notes),
        ]
        for split in dict.fromkeys(score.split for score in self.scores):
            lines += ["", f"## {split}", "", *_table([score for score in self.scores if score.split == split])]
        return "\n".join(lines) + "\n"


def _table(scores: Sequence[Score]) -> Iterator[str]:
    """Yields the lines of a table: a row per contender, and R2 / median error / coverage (the worst) per metric."""
    metrics = list(dict.fromkeys(score.metric for score in scores))
    yield (
        "| R2 / median error / coverage (of the worst setting) | "
        + " | ".join(_TITLES[metric] for metric in metrics)
        + " |"
    )
    yield "|---|" + "---:|" * len(metrics)
    for contender in dict.fromkeys(score.contender for score in scores):
        own = {score.metric: score for score in scores if score.contender == contender}
        yield f"| {contender} | " + " | ".join(_cell(own[metric]) for metric in metrics) + " |"


def _cell(score: Score) -> str:
    return f"{score.r2:.2f} / {score.median_error:.1%} / {score.coverage:.0%} ({score.worst_coverage:.0%})"


# fmt: off
#: Parameters of each compared `Surrogate`, by its name on the card. The last three are A3GNN's (III-C).
CONTENDERS: dict[str, dict[str, Any]] = {
    "analytic model":          {"learner": "none"},
    "XGBoost on its residual": {"learner": "xgboost"},
    "XGBoost, no physics":     {"learner": "xgboost", "physics": False},
    "linear regression":       {"learner": "linear", "physics": False},
    "decision tree":           {"learner": "tree", "physics": False},
}
# fmt: on
#: What each split holds out: random rows; whole graphs; whole graphs except their default configuration; whole graphs
#: except that and nine more.
SPLITS: tuple[str, ...] = (
    *("random rows", "unseen graph", "unseen graph, default measured", "unseen graph, ten measured"),
)
#: The stage that progress names.
_STAGE = "fitting models to measurements without a fold"
#: Configurations besides the default that the last split does not hold out.
_MEASURED = 9


def evaluate(
    measurements: Sequence[Measurement],
    coverage: float = 0.9,
    seed: int = 0,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> ModelCard:
    """Returns the card of all `CONTENDERS`, each refitted for every fold of every split.

    Copies of a row count once, so that no held-out row is trained on. Splits by graph need two graphs; with one, a note
    says so.

    Args:
        measurements: Measurements; the ones without metrics are counted and left out.
        coverage: Share of measurements that the intervals should cover.
        seed: Decides folds, and the rows and columns that trees see.
        progress: Called with the stage, the finished steps and all steps.

    Raises:
        UsageError: There are fewer than two measurements with metrics.
    """
    measurements = distinct(measurements)
    rows = [row for row in measurements if row.metrics is not None]
    if len(rows) < 2:
        raise UsageError(f"a model card needs at least 2 measurements with metrics, got {len(rows)}; profile some")
    names = {row.setting.graph.fingerprint: row.setting.graph.name for row in rows}
    notes = ["The accuracy of the default configuration is taken as known: every tuning measures it first."]
    if len(names) == 1:
        notes.append("One graph only: nothing is known of unseen graphs, and their intervals are guesses.")
    splits = SPLITS if len(names) > 1 else SPLITS[:1]
    fits = len(CONTENDERS) * sum(len(_folds(rows, split, seed)) for split in splits)
    done = itertools.count(1)
    progress(_STAGE, 0, fits)
    scores = list[Score]()
    for split, contender in itertools.product(splits, CONTENDERS):
        surrogate = Surrogate(**CONTENDERS[contender], coverage=coverage, seed=seed)
        scores += _scores(contender, split, rows, surrogate, lambda: progress(_STAGE, next(done), fits))
    notes += [f"{split}: no graph has enough rows." for split in SPLITS[3:] if split not in {s.split for s in scores}]
    failures = len(measurements) - len(rows)
    return ModelCard(len(rows), failures, tuple(sorted(names.values())), coverage, tuple(notes), tuple(scores))


class HeldOut(NamedTuple):
    """Held-out rows and their predictions; empty if a split holds out none."""

    rows: tuple[Measurement, ...]
    settings: NDArray[np.str_]  # their `setting_key`, shape (n,)
    truth: Array  # their `METRICS`, float64, shape (n, n_metrics); NaN where unknown
    prediction: Prediction  # their prediction by a surrogate that had not seen them


def held_out(
    measurements: Sequence[Measurement], split: str, surrogate: Surrogate, fitted: Callable[[], None] = lambda: None
) -> HeldOut:
    """Returns the rows that `split` holds out, each as predicted by `surrogate` fitted without its fold.

    The accuracy and the seconds of the default configuration are taken as known.

    Args:
        measurements: Measurements; copies, and the ones without metrics, are left out.
        split: One of `SPLITS`.
        surrogate: Its parameters decide how it is fitted; it is fitted anew for each fold.
        fitted: Called after each fold.

    Raises:
        UsageError: There is no such split.
    """
    if split not in SPLITS:
        raise unknown_name("the split", split, SPLITS)
    rows = [row for row in distinct(measurements) if row.metrics is not None]
    references = latest_reference_accuracies(rows)
    curves = {key: KnownCurves.of(group) for key, group in by_setting(rows).items()}
    held_rows, settings = list[Measurement](), list[str]()
    truth, bounds = [np.empty((0, len(METRICS)))], [np.empty((3, 0, len(METRICS)))]
    for held in _folds(rows, split, surrogate.seed):
        surrogate.fit([rows[i] for i in np.flatnonzero(~held)])
        for key, group in by_setting(rows[i] for i in np.flatnonzero(held)).items():
            setting, configs = group[0].setting, [row.config for row in group]
            accuracy = references.get(task_graph_key(setting.task, setting.graph))
            known = KnownDefault(val_accuracy=accuracy, seconds=curves[key].default_seconds())
            found = surrogate.predict(configs, setting, known)
            bounds.append(np.stack([found.mean, found.low, found.high]))
            truth.append(_measured(group, curves[key]))
            held_rows += group
            settings += [key] * len(group)
        fitted()
    prediction = Prediction(*np.concatenate(bounds, axis=1))
    return HeldOut(tuple(held_rows), np.array(settings, dtype=np.str_), np.concatenate(truth), prediction)


def _scores(
    contender: str, split: str, rows: list[Measurement], surrogate: Surrogate, fitted: Callable[[], None]
) -> Iterator[Score]:
    found = held_out(rows, split, surrogate, fitted)
    idle = np.array([row.setting.hardware.profile.idle_host_bytes for row in found.rows], dtype=np.float64)
    for j, metric in enumerate(METRICS):
        known = idle if metric == "peak_host_bytes" else np.zeros(len(found.rows))
        has = found.truth[:, j] > known
        if has.any():
            bounds = (getattr(found.prediction, name)[has, j] - known[has] for name in ("mean", "low", "high"))
            yield _score(
                contender, split, metric, (found.truth[:, j] - known)[has], Prediction(*bounds), found.settings[has]
            )


def _folds(rows: list[Measurement], split: str, seed: int) -> list[NDArray[np.bool_]]:
    if split == SPLITS[0]:
        return row_folds(len(rows), MAX_FOLDS, seed)
    graphs = np.array([row.setting.graph.fingerprint for row in rows])
    folds = group_folds(graphs, seed)
    if split == SPLITS[1]:
        return folds
    seen = np.array([row.config == TrainConfig() for row in rows])
    if split == SPLITS[3]:
        seen |= _some_of_each(graphs, ~seen, _MEASURED, seed)
    return [held & ~seen for held in folds]


def _some_of_each(graphs: NDArray[np.str_], among: NDArray[np.bool_], count: int, seed: int) -> NDArray[np.bool_]:
    """Returns a random choice of `count` rows of each graph from the rows `among`, bool, shape (n,)."""
    random, chosen = generator(seed, "evaluate.measured"), np.zeros(len(graphs), dtype=np.bool_)
    for graph in np.unique(graphs):
        chosen[random.permutation(np.flatnonzero(among & (graphs == graph)))[:count]] = True
    return chosen


def _measured(rows: Sequence[Measurement], curves: KnownCurves) -> Array:
    """Returns `METRICS` of the rows of one setting, float64, shape (n, n_metrics); NaN where unknown."""
    found = []
    for row, learned in zip(rows, curves.learned(rows), strict=True):
        assert row.metrics is not None
        metrics, fixed_epochs = row.metrics, row.metrics.val_accuracy
        sizes = [
            metrics.throughput_epochs_per_s,
            metrics.peak_device_bytes,
            training_peak(metrics, row.setting.hardware),
        ]
        found.append([*sizes, learned.val_accuracy if fixed_epochs is None else fixed_epochs, learned.seconds])
    return np.array(found, dtype=np.float64)


def _score(
    contender: str, split: str, metric: str, truth: Array, prediction: Prediction, settings: NDArray[np.str_]
) -> Score:
    """Returns the score on one metric from columns of shape (n,)."""
    accuracy = metric == "val_accuracy"
    scaled, predicted = (truth, prediction.mean) if accuracy else (np.log(truth), np.log(prediction.mean))
    _, setting, counts = np.unique(settings, return_inverse=True, return_counts=True)
    spread = scaled - (np.bincount(setting, scaled) / counts)[setting]
    r2 = 1 - ((scaled - predicted) ** 2).sum() / max((spread**2).sum(), 1e-12)
    error = np.abs(truth - prediction.mean) if accuracy else np.abs(prediction.mean / truth - 1)
    covered = (prediction.low <= truth) & (truth <= prediction.high)
    worst = (np.bincount(setting, covered) / counts).min()
    return Score(contender, split, metric, float(r2), float(np.median(error)), float(covered.mean()), float(worst))
