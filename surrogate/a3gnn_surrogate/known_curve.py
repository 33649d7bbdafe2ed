"""`KnownCurve`: what one learning key learns, and the columns that decide which key a configuration has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import KNOBS, TrainConfig
from a3gnn.learning_curve import LearningCurve, Pace
from a3gnn.where import NEVER
from a3gnn_surrogate.columns import Columns

#: The knobs that decide what is learnt.
_LEARNING = tuple(knob for knob in KNOBS if knob.learns != NEVER)


@dataclass(frozen=True, slots=True)
class KnownCurve:
    """The curve of one learning key.

    Attributes:
        knobs: Values of the knobs that decide what is learnt, as `learning_values` gives them.
        curve: The longest that was trained; it has points.
        batches_per_epoch: Mini-batches of an epoch.
        setup_s: Seconds before the first mini-batch.
    """

    knobs: tuple[Any, ...]
    curve: LearningCurve
    batches_per_epoch: int
    setup_s: float

    def pace(self, throughput: float) -> Pace:
        """Returns the pace at a throughput in epochs per second."""
        return Pace(self.setup_s, throughput * self.batches_per_epoch)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        fields = {name: getattr(self, name) for name in KnownCurve.__slots__}
        named = {knob.name: value for knob, value in zip(_LEARNING, self.knobs, strict=True)}
        return fields | {"knobs": named, "curve": self.curve.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the curve of `to_dict`."""
        knobs = tuple(fields["knobs"][knob.name] for knob in _LEARNING)
        curve = LearningCurve.from_dict(
            {**fields["curve"], **{name: tuple(fields["curve"][name]) for name in ("batches", "val_accuracy")}}
        )
        return cls(knobs, curve, fields["batches_per_epoch"], fields["setup_s"])


def learning_values(config: TrainConfig) -> tuple[Any, ...]:
    """Returns what decides the mini-batches of `config`, coded: equal for configurations of equal learning keys."""
    values = config.learning_values()
    return tuple(knob.coded(values[knob.name]) for knob in _LEARNING)


def learning_columns(columns: Columns) -> list[NDArray[Any]]:
    """Returns the same of canonical `columns`: an array of shape (n_configs,) per value."""
    return [np.where(knob.learns.holds(columns), columns[knob.name], knob.coded(knob.default)) for knob in _LEARNING]
