"""What was measured of a variant with one seed, beside the default."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from a3gnn.config import TrainConfig


@dataclass(frozen=True, slots=True)
class Side:
    """What one configuration came to with one seed.

    Attributes:
        throughput: Epochs per second.
        peak_bytes: Peak memory, of the device where there is one.
        val_accuracy: Best validation accuracy within the default's training time, in [0, 1]; None where no point of its
            curve lies in it.
        seconds_to_accuracy: Seconds of training to the default's accuracy less a point; None where it is not reached.
    """

    throughput: float
    peak_bytes: int
    val_accuracy: float | None
    seconds_to_accuracy: float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A variant and the default, timed one right after the other.

    Attributes:
        graph: Its name.
        seed: The task's.
        config: The variant's configuration.
        own: What it came to; None where it failed.
        default: What the default came to.
        failure: Why it failed, or "".
    """

    graph: str
    seed: int
    config: TrainConfig
    own: Side | None
    default: Side
    failure: str = ""

    @property
    def throughput(self) -> float | None:
        """The variant's throughput over the default's."""
        return None if self.own is None else self.own.throughput / self.default.throughput

    @property
    def memory(self) -> float | None:
        """The default's peak memory over the variant's."""
        return None if self.own is None else self.default.peak_bytes / self.own.peak_bytes

    @property
    def time(self) -> float | None:
        """The default's seconds to accuracy over the variant's; None where either does not reach it."""
        seconds = None if self.own is None else self.own.seconds_to_accuracy
        default = self.default.seconds_to_accuracy
        return None if seconds is None or default is None else default / seconds

    @property
    def points(self) -> float | None:
        """The variant's validation accuracy at equal training time less the default's, in points."""
        own = None if self.own is None else self.own.val_accuracy
        default = self.default.val_accuracy
        return None if own is None or default is None else 100 * (own - default)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Cell:
        """Returns the cell of `to_dict`."""
        sides = {name: None if fields[name] is None else Side(**fields[name]) for name in ("own", "default")}
        return cls(**{**fields, **sides, "config": TrainConfig.from_dict(fields["config"])})
