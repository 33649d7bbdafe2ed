"""`Target`: a validation quality that training is to reach, and `Point`: where that is looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A quality on validation nodes, by the task's metric, that training is to reach.

    Attributes:
        accuracy: The quality.
        first: Mini-batches before the first point at which validation is evaluated for it (`first_point`).
        ends: Whether training ends where it is reached.
    """

    accuracy: float
    first: int
    ends: bool


@dataclass(frozen=True, slots=True)
class Point:
    """An evaluation of validation at a point of the learning curve (`a3gnn.learning_curve.next_point`).

    Attributes:
        batches: Mini-batches trained on before it.
        val_accuracy: The quality on validation nodes.
        train_s: Seconds of training until then, set-up included, evaluations left out.
        eval_s: Seconds of all evaluations until then, its own included.
    """

    batches: int
    val_accuracy: float
    train_s: float
    eval_s: float
