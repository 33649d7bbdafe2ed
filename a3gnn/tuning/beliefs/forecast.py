"""`Forecast`: what is predicted of one configuration, also beside the default."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.prediction import Prediction
from a3gnn.tuning.beliefs.outlook import Outlook


class Interval(NamedTuple):
    """A predicted figure; never a measured one.

    Attributes:
        mean: What is predicted.
        low: The lower bound of its interval of 90 %.
        high: The upper bound.
    """

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, prediction: Prediction, row: int, metric: str) -> Interval:
        """Returns what `prediction` says of `metric` in its `row`."""
        return cls(*(float(prediction.column(metric, bound)[row]) for bound in cls._fields))

    def over(self, other: Interval) -> Interval:
        """Returns the ratio to `other`, both positive; their errors are taken to be independent."""
        log = math.log(self.mean / other.mean)
        low = math.hypot(math.log(self.mean / self.low), math.log(other.high / other.mean))
        high = math.hypot(math.log(self.high / self.mean), math.log(other.mean / other.low))
        return Interval(math.exp(log), math.exp(log - low), math.exp(log + high))

    def scaled(self, factor: float, offset: float = 0.0) -> Interval:
        """Returns `factor` times what exceeds `offset`; the factor is positive."""
        return Interval(*(factor * (value - offset) for value in self))

    def to_dict(self) -> dict[str, float]:
        """Returns the fields as JSON types."""
        return self._asdict()


#: What the default is beside itself, which is certain.
_SAME, _NO_DIFFERENCE = Interval(1.0, 1.0, 1.0), Interval(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is predicted of a configuration, with intervals of 90 %; nothing of it was measured.

    Attributes:
        config: The configuration.
        throughput_epochs_per_s: Epochs per second.
        throughput_over_default: That over the default's.
        peak_host_bytes: Peak of host memory.
        peak_device_bytes: Peak of device memory; None without a device.
        accuracy_beside_default: By how many points its validation accuracy at equal training time exceeds the
            default's.
        seconds_to_accuracy: Seconds of training to the target; None where the default's are not known.
        seconds_over_default: Those over the default's.
        keeps: The probability that it keeps each limit that is set, by the limit's name in `Limits`.
    """

    config: TrainConfig
    throughput_epochs_per_s: Interval
    throughput_over_default: Interval
    peak_host_bytes: Interval
    peak_device_bytes: Interval | None
    accuracy_beside_default: Interval
    seconds_to_accuracy: Interval | None
    seconds_over_default: Interval
    keeps: Mapping[str, float]

    @classmethod
    def pair(cls, outlook: Outlook, config: TrainConfig) -> tuple[Forecast, Forecast]:
        """Returns what is predicted of `config`, and of the default configuration."""
        configs = [config.canonical(), TrainConfig().canonical()]
        found, beside = outlook.predict(configs), outlook.predict_beside_default(configs)
        speeds = [Interval.of(beside, row, "throughput_epochs_per_s") for row in range(2)]
        base = speeds[1] if outlook.knows_setting else Interval(*[speeds[1].mean] * 3)  # that is in the others' already
        keeps = outlook.keeping(found)
        best, default = (
            cls(
                config=configs[row],
                throughput_epochs_per_s=Interval.of(found, row, "throughput_epochs_per_s"),
                throughput_over_default=speeds[row].over(base),
                peak_host_bytes=Interval.of(found, row, "peak_host_bytes"),
                peak_device_bytes=(
                    Interval.of(found, row, "peak_device_bytes") if outlook.setting.hardware.has_device else None
                ),
                accuracy_beside_default=Interval.of(found, row, "val_accuracy").scaled(100.0, outlook.default_accuracy),
                seconds_to_accuracy=Interval.of(found, row, "seconds_to_accuracy") if outlook.knows_seconds else None,
                seconds_over_default=Interval.of(beside, row, "seconds_to_accuracy").scaled(
                    1 / (outlook.default.seconds or 1.0)
                ),
                keeps={name: float(values[row]) for name, values in keeps.items()},
            )
            for row in range(2)
        )
        certain = dataclasses.replace(
            default,
            throughput_over_default=_SAME,
            accuracy_beside_default=_NO_DIFFERENCE,
            seconds_over_default=_SAME,
            keeps={**default.keeps, "least_accuracy": 1.0},
        )
        return (certain if best.config == default.config else best), certain

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        fields: dict[str, Any] = {"config": self.config.to_dict(), "keeps": dict(self.keeps)}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name not in fields:
                fields[field.name] = None if value is None else value.to_dict()
        return fields
