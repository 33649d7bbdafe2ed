"""`Choice`: the configuration that a tune chooses, with its verification results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures, Reference
from a3gnn.learning_curve import Pace
from a3gnn.measurement import Metrics
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.tuning.study.trial import Trial

#: The `left_out` entry of a choice that was made when the tune was stopped. Files of older versions have it, too.
STOPPED = "the verification, because the tune was stopped: the choice was measured once"


@dataclass(frozen=True, slots=True)
class Judged:
    """The results of a configuration in the verification.

    Attributes:
        metrics: Throughput over its pairs, the largest peaks seen, and its whole curve.
        figures: The figures of these metrics.
    """

    metrics: Metrics
    figures: Figures


class Final(NamedTuple):
    """The end of a training with the task's seed.

    Attributes:
        val_accuracy: Best validation accuracy, in [0, 1].
        test_accuracy: Test accuracy with the weights of that point; None if it was not tested.
        seconds: Seconds of training, set-up included.
        stopped: Whether validation accuracy had stopped improving.
    """

    val_accuracy: float
    test_accuracy: float | None
    seconds: float
    stopped: bool

    @classmethod
    def of(cls, trained: Metrics | None, pace: Pace) -> Self | None:
        """Returns the end of the training of `trained`, in seconds at `pace`; None without a curve."""
        curve = None if trained is None else trained.curve
        if trained is None or curve is None or not curve.batches:
            return None
        seconds, stopped = pace.seconds(curve.trained), curve.has_stopped_improving()
        return cls(max(curve.val_accuracy), trained.test_accuracy, seconds, stopped)


class RateAlone(NamedTuple):
    """The baseline with the choice's learning rate, trained once: the share of a gain that needs no other knob.

    Attributes:
        scale: The choice's factor on the task's learning rate.
        seconds: Seconds of training to the target, at the speed of the verification; None if it missed the target in
            the baseline's seconds.
    """

    scale: float
    seconds: float | None


@dataclass(frozen=True, slots=True)
class NoGain:
    """The best other configuration, if it had no measurable gain and the default was chosen instead.

    Attributes:
        config: The configuration.
        against: Its comparison with the default.
    """

    config: TrainConfig
    against: Comparison

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return {"config": self.config.to_dict(), "against_default": self.against.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the object of `to_dict`."""
        return cls(TrainConfig.from_dict(fields["config"]), Comparison.from_dict(fields["against_default"]))


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen configuration.

    Attributes:
        trial: The trial that made it a contender.
        judged: Its results in the verification.
        default: The default's results in the verification; None if it was not measured there.
        against: Comparison of choice and default; None if the default is the choice, or was not measured.
        no_gain: The configuration that the default was chosen over for lack of a measurable gain; else None.
        figures: Figures of all configurations measured in the verification, by configuration key.
        notes: Why another contender was not chosen, by configuration key.
        left_out: Measurements that the budget was too small for, in words; or `STOPPED`.
        reference: The verification's reference, at the machine's speed then; None without a verification.
        final: The ends of the baseline's training (`default`) and the other configuration's (`other`), if the
            baseline's stopped improving; else empty.
        rate_alone: The baseline with the choice's learning rate; None if that is the task's, if seconds do not count,
            or if the budget was too small.
    """

    trial: Trial
    judged: Judged
    default: Judged | None
    against: Comparison | None
    figures: Mapping[str, Figures] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    no_gain: NoGain | None = None
    reference: Reference | None = None
    final: Mapping[str, Final] = field(default_factory=dict)
    rate_alone: RateAlone | None = None
