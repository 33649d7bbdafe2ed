"""`Choice`: the configuration that a tune hands over, as the play-off found it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures, Reference
from a3gnn.measurement import Metrics
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.tuning.study.trial import Trial

#: What a choice leaves out that was made when the tune was stopped.
STOPPED = "the play-off, for the tune was stopped: what is promised of the choice was measured once"


@dataclass(frozen=True, slots=True)
class Judged:
    """What a configuration came to in the play-off.

    Attributes:
        metrics: Throughput over its alternations, the largest peaks seen, and what its whole curve learnt.
        figures: What that comes to.
    """

    metrics: Metrics
    figures: Figures


@dataclass(frozen=True, slots=True)
class NoGain:
    """The best other configuration, where no gain over the default could be measured, and the default is the choice.

    Attributes:
        config: The configuration.
        against: It against the default.
    """

    config: TrainConfig
    against: Comparison

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return {"config": self.config.to_dict(), "against_default": self.against.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns it of `to_dict`."""
        return cls(TrainConfig.from_dict(fields["config"]), Comparison.from_dict(fields["against_default"]))


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen.

    Attributes:
        trial: The trial that made it a finalist.
        judged: What it came to in the play-off.
        default: The same of the default, where that was measured in the play-off; None otherwise.
        against: The choice against the default; None where the default is the choice, or was not measured.
        no_gain: What the default was chosen over, where it was for want of a measurable gain.
        figures: By the key of a configuration, the figures of all that were measured in the play-off.
        notes: By the key of a configuration, why another finalist was not chosen.
        left_out: What the budget was too small for, in words; or `STOPPED`.
        reference: By what the play-off judged, at the speed of the machine then; None without a play-off.
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
