"""The residual of one output: an intercept, a learner of what varies within settings, and interval widths."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import xgboost
from numpy.typing import NDArray

from a3gnn.errors import unknown_name
from a3gnn.seeding import generator
from a3gnn_surrogate import local
from a3gnn_surrogate.columns import MAX_FOLDS, Array
from a3gnn_surrogate.rows import ACCURACY_DROP, OUTPUTS, RowSource, TrainingRows, relevant_inputs

Features = NDArray[np.float32]
#: For each fold, which rows are held out: bool, shape (n,).
Folds = list[NDArray[np.bool_]]
#: A few hundred rows have too little work for a second thread.
THREADS = {"nthread": 1}
#: Numbers of trees that `BoostedTrees.tune` chooses from, by cross-validation.
_NUM_TREES = (0, 20, 40, 60, 80, 120, 160)
#: Usual values for a few hundred rows. `python -m benchmarks.surrogate_parameters` at commit 10d4978 finds values that
#: are better by 4 % of the squared error on the graphs that it sees, and not on others.
PARAMETERS: dict[str, float] = {
    "max_depth": 3,
    "eta": 0.1,
    "subsample": 0.8,
    "colsample_bytree": 0.5,
    "min_child_weight": 4.0,
    "lambda": 4.0,
}
_FIXED = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "base_score": 0.0,
    "max_bin": 64,  # a few hundred rows have few distinct values
    **THREADS,
}
_RIDGE_ALPHA = 1.0
_TREE_DEPTH, _TREE_MIN_LEAF = 6, 4


class Fold(NamedTuple):
    """The rows of a cross-validation fold, as seen without its held-out rows."""

    held: NDArray[np.bool_]  # which rows are held out, bool, shape (n,)
    features: Features  # float32, shape (n, n_features)
    y: Array  # float64, shape (n,)


class Regressor(Protocol):
    """A regressor of one output; features are float32, shape (n, n_features), y and sample weights float64, (n,)."""

    def tune(self, folds: Sequence[Fold], sample_weight: Array) -> Self:
        """Chooses hyper-parameters by cross-validation over `folds`, and returns itself."""
        ...

    def fit(self, features: Features, y: Array, sample_weight: Array) -> Self:
        """Fits with the hyper-parameters that `tune` chose, and returns itself."""
        ...

    def predict(self, features: Features) -> Array:
        """Returns the predicted output, float64, shape (n,)."""
        ...


@dataclass(eq=False)
class BoostedTrees:
    """XGBoost with a fixed number of shallow trees; deterministic for a seed.

    Attributes:
        seed: Decides which rows and columns a tree sees.
        trees: Number of trees; 0 predicts 0. `tune` sets it.
        booster: The fitted model, or None.
        parameters: XGBoost's parameters, with the names in `PARAMETERS`.
    """

    seed: int
    trees: int = 0
    booster: xgboost.Booster | None = None
    parameters: Mapping[str, float] = field(default_factory=lambda: PARAMETERS)

    def tune(self, folds: Sequence[Fold], sample_weight: Array) -> Self:
        """Chooses the number of trees, possibly none, with the least squared error over `folds`.

        Early stopping on random rows would choose too many: rows of one graph resemble each other.
        """
        self.trees = _NUM_TREES[int(self.held_out_errors(folds, sample_weight).argmin())]
        return self

    def held_out_errors(self, folds: Sequence[Fold], sample_weight: Array) -> Array:
        """Returns the squared error over `folds` with no trees, and with each number that `tune` chooses from."""
        errors = np.zeros(len(_NUM_TREES))
        for held, features, y in folds:
            errors[0] += sample_weight[held] @ y[held] ** 2
            booster = self._train(features[~held], y[~held], sample_weight[~held], _NUM_TREES[-1])
            matrix = xgboost.DMatrix(features[held], nthread=1)
            for step, trees in enumerate(_NUM_TREES[1:], start=1):
                predicted = booster.predict(matrix, iteration_range=(0, trees))
                errors[step] += sample_weight[held] @ (y[held] - predicted) ** 2
        return errors

    def fit(self, features: Features, y: Array, sample_weight: Array) -> Self:
        """Fits `trees` trees and returns itself."""
        self.booster = self._train(features, y, sample_weight, self.trees) if self.trees else None
        return self

    def predict(self, features: Features) -> Array:
        """Returns the predicted output, float64, shape (n,)."""
        if self.booster is None:
            return np.zeros(len(features))
        return np.asarray(self.booster.inplace_predict(features), dtype=np.float64)

    def _train(self, features: Features, y: Array, sample_weight: Array, trees: int) -> xgboost.Booster:
        matrix = xgboost.DMatrix(features, label=y, weight=sample_weight, nthread=1)
        booster = xgboost.Booster({**_FIXED, **self.parameters, "seed": self.seed}, [matrix])
        for tree in range(trees):
            booster.update(matrix, tree)
        return booster


@dataclass(eq=False)
class Baseline:
    """A regressor of scikit-learn with fixed hyper-parameters.

    Attributes:
        regressor: The estimator, fitted in place.
        weight_name: The name of its `fit` parameter for sample weights.
    """

    regressor: Any
    weight_name: str

    def tune(self, folds: Sequence[Fold], sample_weight: Array) -> Self:
        """Returns itself."""
        return self

    def fit(self, features: Features, y: Array, sample_weight: Array) -> Self:
        """Fits the regressor and returns itself."""
        self.regressor.fit(features.astype(np.float64), y, **{self.weight_name: sample_weight})
        return self

    def predict(self, features: Features) -> Array:
        """Returns the predicted output, float64, shape (n,)."""
        return np.asarray(self.regressor.predict(features.astype(np.float64)), dtype=np.float64)


class NoLearner:
    """Predicts 0: no correction of the analytic model."""

    def tune(self, folds: Sequence[Fold], sample_weight: Array) -> Self:
        """Returns itself."""
        return self

    def fit(self, features: Features, y: Array, sample_weight: Array) -> Self:
        """Returns itself."""
        return self

    def predict(self, features: Features) -> Array:
        """Returns zeros, float64, shape (n,)."""
        return np.zeros(len(features))


def _linear(seed: int) -> Baseline:
    """Returns linear regression; its small penalty only decides between columns that are copies of each other."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return Baseline(make_pipeline(StandardScaler(), Ridge(alpha=_RIDGE_ALPHA)), "ridge__sample_weight")


def _decision_tree(seed: int) -> Baseline:
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(max_depth=_TREE_DEPTH, min_samples_leaf=_TREE_MIN_LEAF, random_state=seed)
    return Baseline(tree, "sample_weight")


_LEARNERS: dict[str, Callable[[int], Regressor]] = {
    "xgboost": BoostedTrees,
    "linear": _linear,
    "tree": _decision_tree,
    "none": lambda seed: NoLearner(),
}


def make_learner(name: str, seed: int) -> Regressor:
    """Returns the unfitted learner `name`: xgboost; linear or tree, the baselines; or none.

    Raises:
        UsageError: There is no learner of this name; the message lists the names.
    """
    if name not in _LEARNERS:
        raise unknown_name("learner", name, _LEARNERS)
    return _LEARNERS[name](seed)


def group_folds(groups: NDArray[Any], seed: int) -> Folds:
    """Returns at most five folds that hold out whole groups of rows; if there is one group only, folds of its rows.

    Groups are graphs, for instance. Folds of random rows would have each graph on both sides, and the intervals on an
    unseen graph would be too narrow (in a simulation they covered 70 % instead of 90 %, against 88 % with folds of
    graphs).
    """
    names = np.unique(groups)
    if len(names) < 2:
        return row_folds(len(groups), MAX_FOLDS, seed)
    order = generator(seed, "conformal.graph_folds").permutation(names)
    return [np.isin(groups, part) for part in np.array_split(order, min(MAX_FOLDS, len(names)))]


def row_folds(count: int, folds: int, seed: int) -> Folds:
    """Returns at most `folds` folds of `count` rows, of nearly equal sizes."""
    order = generator(seed, "conformal.row_folds").permutation(count)
    num_folds = min(folds, count)
    return [np.isin(order, np.arange(fold, count, num_folds)) for fold in range(num_folds)]


# All of the following are guesses.
#: Rows below which no learner is fitted.
_MIN_ROWS = 12
#: Rows below which the mean of a setting is too uncertain to centre its rows on.
_MIN_SETTING_ROWS = 3
#: Share of the variance within a setting that is attributed to noise.
_NOISE_SHARE = 0.1
#: Factor on half-widths when all rows are of one graph: its errors say little about another graph.
_SINGLE_GRAPH_WIDENING = 2.0
_PRIOR_COVERAGE = 0.9


class _Prior(NamedTuple):
    """Assumptions about an output before anything is measured, in its unit."""

    between_settings: float  # standard deviation of the settings' means
    within_setting: float  # standard deviation over the knobs
    noise: float  # standard deviation of repeated measurements
    half_width_unseen: float  # half-width of 90 % intervals on a setting without measurements
    half_width_default_known: float  # half-width of 90 % intervals on a setting whose default configuration is measured


# fmt: off
_PRIORS = {
    #                                  between  within  noise  unseen  default known
    "throughput_epochs_per_s": _Prior( 0.7,     0.3,    0.05,  1.4,    0.7),
    "peak_device_bytes":       _Prior( 0.25,    0.15,   0.02,  0.5,    0.3),
    "host_bytes_above_idle":   _Prior( 0.5,     0.3,    0.1,   1.0,    0.6),
    "accuracy_drop":           _Prior( 0.8,     1.2,    0.3,   2.8,    2.3),
    "epochs_to_accuracy":      _Prior( 0.2,     0.4,    0.05,  1.0,    0.8),
}
# fmt: on


@dataclass(frozen=True, slots=True)
class ResidualModel:
    """Predicts the residual of the analytic model in one output.

    Attributes:
        learner: Predicts the residual less its setting's mean.
        intercept: Mean of the settings' means; added everywhere.
        variances: How the residuals vary between settings, within one, and between repetitions.
        scale_unseen: Half-width of intervals on a setting without measurements, in standard deviations by `variances`.
        scale_default_known: Half-width on a setting whose default configuration is measured, in standard deviations of
            the Gaussian process over its rows.
        scale_beside_default: The same half-width for a configuration's results relative to the default's.
        kinds: Factors on these half-widths, by the kind of configuration.
    """

    learner: Regressor
    intercept: float
    variances: local.VarianceComponents
    scale_unseen: float
    scale_default_known: float
    scale_beside_default: float
    kinds: local.KindFactors

    def predict(self, features: Features) -> Array:
        """Returns the residual before any local correction, float64, shape (n,)."""
        return self.intercept + self.learner.predict(features)


def prior_model(output: str, coverage: float) -> ResidualModel:
    """Returns the model of an output with too few measurements: it predicts 0, with wide intervals."""
    prior = _PRIORS[output]
    # A higher coverage widens intervals as for a normal error, whose tail is about exp(-width^2).
    factor = float(np.sqrt(np.log(1 - coverage) / np.log(1 - _PRIOR_COVERAGE)))
    variances = local.VarianceComponents(prior.between_settings**2, prior.within_setting**2, prior.noise**2)
    known = prior.half_width_default_known * factor / variances.deviation_given_one
    return ResidualModel(
        learner=NoLearner(),
        intercept=0.0,
        variances=variances,
        scale_unseen=prior.half_width_unseen * factor / variances.deviation,
        scale_default_known=known,  # of a configuration that has nothing in common with the default
        scale_beside_default=known,
        kinds=local.KindFactors(),
    )


def fit_residual_model(
    source: RowSource, output: int, weights: Array, make: Callable[[], Regressor], coverage: float, seed: int
) -> ResidualModel:
    """Returns the model of the residual of `output`, fitted to the rows that have it; the prior if they are few.

    Folds hold out whole graphs, also from the calibration. They serve to choose the learner's hyper-parameters and to
    find the intervals.
    """
    prior = prior_model(OUTPUTS[output], coverage)
    every = source.rows()
    known = np.isfinite(every.measured[:, output])
    if known.sum() < _MIN_ROWS:
        return prior
    rows, weights = every.take(known), weights[known]
    centred, usable = _centred(rows.residual(output), rows.settings)
    if not usable.any():
        return prior
    folds = learner_folds(source, output, lambda graphs: group_folds(graphs, seed))
    learner = make().tune(folds, weights[usable])
    errors = held_out_errors(source, output, weights, learner, seed)
    learner.fit(rows.features[usable], centred[usable], weights[usable])
    intercept = _mean_of_means(rows.residual(output), rows.settings)
    variances = variance_components(
        errors, rows.points[:, relevant_inputs(rows.points)[output]], rows.settings, prior.variances
    )
    kinds = local.KindFactors()
    if output == ACCURACY_DROP:
        kinds = local.KindFactors.of(local.scores_given_default(errors, rows, variances, output), rows.points)
    return ResidualModel(
        learner, intercept, variances, *_scales(errors, rows, variances, output, kinds, prior, coverage), kinds
    )


def held_out_errors(source: RowSource, output: int, weights: Array, learner: Regressor, seed: int) -> Array:
    """Returns the errors of `output` on its rows, each row's graph held out, float64, shape (n,).

    Args:
        source: The rows.
        output: Position in `OUTPUTS`.
        weights: Sample weights of the rows that have the output, float64, shape (n,).
        learner: Tuned; it is fitted anew for each fold.
        seed: Decides folds.
    """
    known = np.isfinite(source.rows().measured[:, output])
    rows = source.rows().take(known)
    errors = np.empty(len(rows))
    for held in group_folds(rows.graphs, seed):
        seen = _without(source, rows, held).take(known)
        residual = seen.residual(output)
        intercept = _mean_of_means(residual[~held], rows.settings[~held])
        centred, usable = _centred(residual, rows.settings)
        kept = usable & ~held
        learner.fit(seen.features[kept], centred[kept], weights[kept])
        errors[held] = residual[held] - intercept - learner.predict(seen.features[held])
    return errors


def _scales(
    errors: Array,
    rows: TrainingRows,
    variances: local.VarianceComponents,
    output: int,
    kinds: local.KindFactors,
    prior: ResidualModel,
    coverage: float,
) -> tuple[float, float, float]:
    """Returns the scales of a `ResidualModel` from held-out `errors`; those of `prior` if there are too few."""
    factors = kinds.at(rows.points)
    unseen = local.half_width(errors / variances.deviation, rows.graphs, coverage)
    known, beside = (
        local.half_width(scored(errors, rows, variances, output) / factors, rows.graphs, coverage)
        for scored in (local.scores_given_default, local.scores_beside_default)
    )
    if len(np.unique(rows.graphs)) == 1:
        least = prior.scale_unseen * prior.variances.deviation / variances.deviation
        unseen = max(unseen * _SINGLE_GRAPH_WIDENING, least)
        known, beside = known * _SINGLE_GRAPH_WIDENING, beside * _SINGLE_GRAPH_WIDENING
    return (
        unseen,
        known if np.isfinite(known) else prior.scale_default_known,
        beside if np.isfinite(beside) else prior.scale_beside_default,
    )


def refit(model: ResidualModel, rows: TrainingRows, output: int, weights: Array) -> ResidualModel:
    """Returns `model` fitted to other rows; hyper-parameters, variances and scales stay."""
    known = np.isfinite(rows.measured[:, output])
    rows, weights = rows.take(known), weights[known]
    residual = rows.residual(output)
    centred, usable = _centred(residual, rows.settings)
    learner = copy.deepcopy(model.learner)
    learner.fit(rows.features[usable], centred[usable], weights[usable])
    return dataclasses.replace(model, learner=learner, intercept=_mean_of_means(residual, rows.settings))


def _without(source: RowSource, rows: TrainingRows, held: NDArray[np.bool_]) -> TrainingRows:
    """Returns all rows of `source`, calibrated without the graphs whose rows in `rows` are all held out."""
    return source.rows(frozenset(np.unique(rows.graphs[held]).tolist()) - set(rows.graphs[~held].tolist()))


def learner_folds(source: RowSource, output: int, held_out: Callable[[NDArray[np.str_]], Folds]) -> list[Fold]:
    """Returns folds of the rows that a learner of `output` is fitted to, as seen without their held-out rows.

    Args:
        source: The rows. If a fold holds out all rows of a graph, the calibration leaves out that graph too.
        output: Position in `OUTPUTS`.
        held_out: Takes the rows' graphs, str, shape (n,), and returns which rows each fold holds out.
    """
    known = np.isfinite(source.rows().measured[:, output])
    rows = source.rows().take(known)
    usable = _centred(rows.residual(output), rows.settings).usable
    rows, folds = rows.take(usable), list[Fold]()
    for held in held_out(rows.graphs):
        seen = _without(source, rows, held).take(known).take(usable)
        folds.append(Fold(held, seen.features, _centred(seen.residual(output), seen.settings).residual))
    return folds


class _Centred(NamedTuple):
    """Residuals less their setting's mean, and whether the setting has enough rows for that mean; shape (n,)."""

    residual: Array
    usable: NDArray[np.bool_]


def _centred(residual: Array, settings: NDArray[np.str_]) -> _Centred:
    _, setting, counts = np.unique(settings, return_inverse=True, return_counts=True)
    means = np.bincount(setting, residual) / counts
    return _Centred(residual - means[setting], counts[setting] >= _MIN_SETTING_ROWS)


def _mean_of_means(residual: Array, settings: NDArray[np.str_]) -> float:
    """Returns the mean of the settings' means; 0 without rows."""
    if not len(residual):
        return 0.0
    _, setting, counts = np.unique(settings, return_inverse=True, return_counts=True)
    return float(np.mean(np.bincount(setting, residual) / counts))


def variance_components(
    errors: Array, points: Array, settings: NDArray[np.str_], prior: local.VarianceComponents
) -> local.VarianceComponents:
    """Returns the variance components of held-out `errors`; with few settings, the prior's between settings.

    Rows of a setting resemble each other, so their mean takes a part of their variance. Of m rows whose kernel has the
    mean k, w (1 - k) + n (1 - 1 / m) is left around it. Taken for w + n, that would make intervals too narrow.

    Args:
        errors: float64, shape (n,).
        points: Points of the kernel, float64, shape (n, n_points).
        settings: `setting_key` of each row, shape (n,).
        prior: Has the least noise, and the components that few rows don't show.
    """
    left, expected, means = 0.0, 0.0, list[float]()
    for setting in np.unique(settings):
        own = settings == setting
        means.append(float(errors[own].mean()))
        if (count := int(own.sum())) >= _MIN_SETTING_ROWS:
            left += float(((errors[own] - means[-1]) ** 2).sum())
            alike = float(local.rbf_kernel(points[own], points[own]).mean())
            expected += (1 - _NOISE_SHARE) * count * (1 - alike) + _NOISE_SHARE * (count - 1)
    total = left / expected if expected else prior.within_setting
    between = float(np.mean(np.square(means))) if len(means) >= _MIN_SETTING_ROWS else prior.between_settings
    noise = max(_NOISE_SHARE * total, prior.noise / 4)
    return local.VarianceComponents(max(between, total / 4, 1e-9), max(total - noise, noise), noise)
