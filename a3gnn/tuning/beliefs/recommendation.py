"""`Recommendation`: the result of `recommend`, a configuration with forecasts for it and for the default."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from a3gnn.config import TrainConfig
from a3gnn.limits import Limits
from a3gnn.measurement import Measurement, distinct
from a3gnn.prediction import Prediction
from a3gnn.setting import Setting
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.study import TuneRequest
from a3gnn.units import count
from a3gnn.version import versions

if TYPE_CHECKING:
    from a3gnn.tuning.beliefs.outlook import Outlook

#: The metrics that are predicted in their own units, not relative to the default.
_ABSOLUTE = ("throughput_epochs_per_s", "peak_host_bytes", "peak_device_bytes", "seconds_to_accuracy")


class Interval(NamedTuple):
    """A predicted figure, never a measured one.

    Attributes:
        mean: The prediction.
        low: The lower bound of its 90 % interval.
        high: The upper bound.
    """

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, prediction: Prediction, row: int, metric: str) -> Interval:
        """Returns the interval of `metric` in `row` of `prediction`."""
        return cls(*(float(prediction.column(metric, bound)[row]) for bound in cls._fields))

    def over(self, other: Interval) -> Interval:
        """Returns the ratio to `other`, both positive, assuming independent errors."""
        log = math.log(self.mean / other.mean)
        low = math.hypot(math.log(self.mean / self.low), math.log(other.high / other.mean))
        high = math.hypot(math.log(self.high / self.mean), math.log(other.mean / other.low))
        return Interval(math.exp(log), math.exp(log - low), math.exp(log + high))

    def scaled(self, factor: float, offset: float = 0.0) -> Interval:
        """Returns `factor * (value - offset)` for each bound; the factor must be positive."""
        return Interval(*(factor * (value - offset) for value in self))

    def to_dict(self) -> dict[str, float]:
        """Returns the fields as JSON types."""
        return self._asdict()


#: The default's ratio to itself and difference from itself, which are certain.
_SAME, _NO_DIFFERENCE = Interval(1.0, 1.0, 1.0), Interval(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predictions for a configuration, with 90 % intervals; no figure is measured.

    Attributes:
        config: The configuration.
        throughput_epochs_per_s: Epochs per second.
        throughput_over_default: Ratio of its throughput to the default's.
        peak_host_bytes: Peak of host memory.
        peak_device_bytes: Peak of device memory; None without a device.
        accuracy_beside_default: By how many points its validation accuracy at equal training time exceeds the
            default's.
        seconds_to_accuracy: Seconds of training to the target; None if the default's are not known.
        seconds_over_default: Ratio of its seconds to the target to the default's.
        keeps: The probability that it keeps a limit, by the limit's name in `Limits`, for each limit that is set.
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
        """Returns the predictions for `config` and for the default configuration."""
        configs = [config.canonical(), TrainConfig().canonical()]
        found, beside = outlook.predict(configs), outlook.predict_beside_default(configs)
        speeds = [Interval.of(beside, row, "throughput_epochs_per_s") for row in range(2)]
        base = speeds[1] if outlook.knows_setting else Interval(*[speeds[1].mean] * 3)  # the speeds contain its spread
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


class CorpusCount(NamedTuple):
    """Counts of successful measurements, without duplicates.

    Attributes:
        measurements: Number of all measurements.
        graphs: Number of their graphs.
        of_graph: Number of measurements of the study's graph.
        on_machine: Number of measurements on the study's machine.
    """

    measurements: int
    graphs: int
    of_graph: int
    on_machine: int

    @classmethod
    def of(cls, corpus: Sequence[Measurement], setting: Setting) -> Self:
        """Returns the counts of `corpus` for `setting`."""
        found = [row.setting for row in distinct(corpus) if row.metrics is not None]
        return cls(
            measurements=len(found),
            graphs=len({one.graph.fingerprint for one in found}),
            of_graph=sum(one.graph.fingerprint == setting.graph.fingerprint for one in found),
            on_machine=sum(one.hardware.may_be(setting.hardware) for one in found),
        )

    def describe(self) -> str:
        """Returns the counts in a sentence."""
        return (
            f"Predicted from {count(self.measurements, 'measurement')} of {count(self.graphs, 'graph')}: "
            f"{self.of_graph:,} of this graph, {self.on_machine:,} on a machine like this one."
        )


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The configuration with the best prediction; no trial was run for it.

    Attributes:
        request: The options.
        setting: The task, the graph and the machine.
        best: Predictions for the configuration.
        default: Predictions for the default configuration; equal to `best` if the default is recommended.
        corpus: Counts of the measurements that the predictions are based on.
        unknown: What the predictions can't know, a sentence each.
        folder: The folder of its tuned.json, if it was written.
    """

    request: TuneRequest
    setting: Setting
    best: Forecast
    default: Forecast
    corpus: CorpusCount
    unknown: tuple[str, ...]
    folder: Path | None = None

    @property
    def config(self) -> TrainConfig:
        """The configuration."""
        return self.best.config

    @property
    def limits(self) -> Limits:
        """The limits on memory, in bytes."""
        return dataclasses.replace(self.request.limits(self.setting.hardware, None), metric=self.setting.metric)

    def tuned(self) -> TunedConfig:
        """Returns the input of `a3gnn train --config`, with the predictions and without measured figures."""
        figures = {metric: getattr(self.best, metric) for metric in _ABSOLUTE}
        return TunedConfig(
            config=self.config,
            setting=self.setting,
            spec=self.request.spec,
            limits=self.limits,
            predicted={metric: found.to_dict() for metric, found in figures.items() if isinstance(found, Interval)},
            measured=None,
            seeds={"tune": self.request.seed, "task": self.setting.task.seed},
            versions=versions(),
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the recommendation as one JSON object."""
        return {
            "config": self.config.to_dict(),
            "measured": None,
            "predicted": self.best.to_dict(),
            "default": self.default.to_dict(),
            "priority": dataclasses.asdict(self.request.priority),
            "limits": {**self.limits.to_dict(), "max_accuracy_drop": self.request.max_accuracy_drop},
            "graph": self.setting.graph.name,
            "corpus": self.corpus._asdict(),
            "unknown": list(self.unknown),
            "folder": None if self.folder is None else str(self.folder),
        }
