"""`Outlook`: predictions for a study without measurements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import TrainConfig
from a3gnn.measurement import Measurement
from a3gnn.objectives import Objectives
from a3gnn.prediction import Prediction
from a3gnn.setting import Setting, setting_key
from a3gnn.space import Rows, SearchSpace
from a3gnn.tuning.study.history import History
from a3gnn.units import count
from a3gnn_surrogate.known_curves import KnownDefault
from a3gnn_surrogate.surrogate import Surrogate, given_default

#: Stand-in for the default's validation accuracy if no measurement provides it. Only differences from it are used. It
#: lies in the middle, so neither they nor their intervals are cut off at 0 or 1.
_STAND_IN = 0.5
#: A graph is unlike all measured ones if one of its characteristics is outside their range by this factor:
#: the gap that docs/design/tuning.md defines.
_FAR = 2.0
#: The characteristics to compare, with their display names.
_SHAPE: tuple[tuple[str, Callable[[GraphCharacteristics], float]], ...] = (
    ("nodes", lambda graph: graph.num_nodes),
    ("in-neighbors per node", lambda graph: graph.mean_degree),
    ("features", lambda graph: graph.num_features),
    ("stored features per node", lambda graph: graph.num_features * graph.feature_density),
    ("train seeds", lambda graph: graph.num_train),
)


@dataclass(frozen=True)
class Outlook:
    """Predictions for one study; `Outlook.of` makes it.

    Attributes:
        history: The study, without trials.
        fitted: The surrogate, fitted to the study's corpus.
        default: Known figures of the default configuration. Its accuracy is a stand-in if `knows_accuracy` is false.
        knows_accuracy: Whether the default's validation accuracy is measured.
    """

    history: History
    fitted: Surrogate
    default: KnownDefault
    knows_accuracy: bool

    @classmethod
    def of(cls, history: History, fitted: Surrogate) -> Self:
        """Returns the outlook of the study of `history`, from the surrogate `fitted` to its corpus."""
        setting = history.study.setting
        known = fitted.known_default(setting)
        knows_accuracy = known.val_accuracy is not None
        if known.val_accuracy is None:
            default = dataclasses.replace(known, val_accuracy=_STAND_IN)
        else:  # the target of this study, not of the studies that measured the rows
            target = known.val_accuracy - history.study.request.max_drop
            default = fitted.known_default(setting, KnownDefault(target=target))
        return cls(history, fitted, default, knows_accuracy)

    @property
    def setting(self) -> Setting:
        """The task, the graph and the machine."""
        return self.history.study.setting

    @property
    def space(self) -> SearchSpace:
        """The configurations that may be recommended."""
        return self.history.space

    @property
    def knows_setting(self) -> bool:
        """Whether there are measurements of this task on this graph and this machine."""
        return setting_key(self.setting) in self.fitted.setting_corrections_.corrections

    @property
    def knows_seconds(self) -> bool:
        """Whether the default's seconds to the target are measured; otherwise only ratios to them are predicted."""
        return self.default.seconds is not None

    @property
    def default_accuracy(self) -> float:
        """The default's validation quality by the task's metric, or its stand-in."""
        assert self.default.val_accuracy is not None, "`of` sees to it"
        return self.default.val_accuracy

    @property
    def objectives(self) -> Objectives:
        """The objectives of the study; the least accuracy is the default's less the allowed drop."""
        study = self.history.study
        return study.objectives(self.default_accuracy - study.request.max_drop, None)

    def predict_rows(self, rows: Rows) -> Prediction:
        """Returns `predict` of rows of the space, int64, shape (n, n_knobs)."""
        return self.predict(self.space.columns(rows))

    def predict(self, configs: Sequence[TrainConfig] | Mapping[str, NDArray[Any]]) -> Prediction:
        """Returns the prediction of configurations, or of the columns of a space (`SearchSpace.columns`).

        Validation accuracy is relative to that of `default`. So are the seconds to accuracy if the default's are not
        known.
        """
        return self._surrogate.predict(configs, self.setting, self.default)

    def predict_beside_default(self, configs: Sequence[TrainConfig]) -> Prediction:
        """Returns `predict`, but as if the default had been measured as predicted, unless there are measurements.

        Divided by the default's prediction, these are intervals of the ratio: errors common to both cancel.
        """
        return given_default(self.fitted, self.setting, as_predicted=True).predict(configs, self.setting, self.default)

    def keeping(self, prediction: Prediction) -> dict[str, NDArray[np.float64]]:
        """Returns the probabilities that each configuration keeps a limit, by the limit's name (`Limits.keeping`)."""
        return self.objectives.limits.keeping(prediction)

    def is_default(self, rows: Rows) -> NDArray[np.bool_]:
        """Returns which of `rows` are the default configuration, bool, shape (n,)."""
        own = self.history.row(TrainConfig().canonical())
        return np.zeros(len(rows), np.bool_) if own is None else (rows == own).all(axis=1)

    @cached_property
    def _surrogate(self) -> Surrogate:
        """The surrogate, with the facts about the default that need no measurement."""
        return given_default(self.fitted, self.setting)


def unknowns(outlook: Outlook) -> Iterator[str]:
    """Yields a sentence for each part of the study of `outlook` that was never measured."""
    rows = [row for row in outlook.history.study.corpus if row.metrics is not None]
    if not rows:
        yield "Nothing at all was measured: only the equations and the probe of the machine predict."
    else:
        yield from _of_the_setting(outlook, rows)
    label = outlook.setting.metric.label
    if not outlook.knows_accuracy:
        yield f"The {label} on this graph is unknown: only its difference to the baseline is predicted."
    if not outlook.knows_seconds:
        yield f"The seconds to that {label} are unknown: only their ratio to the baseline is predicted."


def _of_the_setting(outlook: Outlook, rows: Sequence[Measurement]) -> Iterator[str]:
    """Yields a sentence for each part of the setting that none of `rows` (at least one) covers."""
    setting = outlook.setting
    graph, hardware, task = setting.graph, setting.hardware, setting.task
    if not any(row.setting.hardware.may_be(hardware) for row in rows):
        machines = len({row.setting.hardware.fingerprint for row in rows})
        yield (
            "Nothing was measured on this machine: its speed comes from the probe, corrected by measurements of "
            f"{count(machines, 'other machine')}."
        )
        if hardware.has_device and not any(row.setting.hardware.has_device for row in rows):
            yield "Nothing was measured with a GPU: what it does is predicted by equations alone."
    if all(row.setting.graph.fingerprint != graph.fingerprint for row in rows):
        yield "Nothing was measured of this graph."
        yield from _of_the_shape(graph, [row.setting.graph for row in rows])
    models = sorted({row.setting.task.model for row in rows})
    if task.model not in models:
        yield f"Nothing was measured of the model {task.model}, only of {', '.join(models)}."
    if (task.norm, task.residual) not in {(row.setting.task.norm, row.setting.task.residual) for row in rows}:
        yield (
            f"Nothing was measured with norm {task.norm} and residual connections "
            f"{'on' if task.residual is True else task.residual or 'off'}: "
            "what they add to a step is predicted by equations alone, and what they do to what is learned is not."
        )


def _of_the_shape(graph: GraphCharacteristics, measured: Sequence[GraphCharacteristics]) -> Iterator[str]:
    """Yields a sentence for each characteristic of `graph` that is unlike the `measured` graphs."""
    if graph.sparse_features not in {one.sparse_features for one in measured}:
        yield f"No graph with {'sparse' if graph.sparse_features else 'dense'} features was measured."
    for name, value_of in _SHAPE:
        own, others = value_of(graph), [value_of(one) for one in measured]
        if own > _FAR * max(others) or own < min(others) / _FAR:
            yield (
                f"The graph is unlike all that were measured: it has {own:,.0f} {name}, they have {min(others):,.0f} "
                f"to {max(others):,.0f}. The intervals do not allow for that."
            )
