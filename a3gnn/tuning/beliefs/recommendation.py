"""`Recommendation`: what `recommend` returns: a configuration, and what is predicted of it and of the default."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from a3gnn.config import TrainConfig
from a3gnn.limits import Limits
from a3gnn.measurement import Measurement, distinct
from a3gnn.setting import Setting
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.beliefs.forecast import Forecast, Interval
from a3gnn.tuning.study.folder import versions
from a3gnn.tuning.study.request import TuneRequest
from a3gnn.units import count


class CorpusCount(NamedTuple):
    """Measurements that succeeded, copies counted once.

    Attributes:
        measurements: All.
        graphs: How many graphs they are of.
        of_graph: Those of the study's graph.
        on_machine: Those on its machine.
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
        """Returns them in a sentence."""
        return (
            f"Predicted from {count(self.measurements, 'measurement')} of {count(self.graphs, 'graph')}: "
            f"{self.of_graph:,} of this graph, {self.on_machine:,} on a machine like this one."
        )


#: The metrics that are predicted in units of their own whatever is measured.
_ABSOLUTE = ("throughput_epochs_per_s", "peak_host_bytes", "peak_device_bytes", "seconds_to_accuracy")


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A configuration that is predicted to be the best; no trial was run for it.

    Attributes:
        request: What was asked for.
        setting: What is trained, on which graph and machine.
        best: What is predicted of the configuration.
        default: What is predicted of the default configuration; the same where that is the best.
        corpus: How many measurements the predictions stand on.
        unknown: What they can't know, a sentence each.
        folder: Where its tuned.json is, if it was to be written.
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
        """Returns what `a3gnn train --config` takes: it says what is predicted, and that nothing was measured."""
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
