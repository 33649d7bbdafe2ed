"""The measured front of a tune, computed once; table, CSV, figure and notebook are views of it."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from a3gnn.breach import Breach
from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, ConfigError
from a3gnn.measurement import METRICS, Metrics
from a3gnn.objectives import Objectives, Priority
from a3gnn.pareto import non_dominated

PICKS = ("throughput", "memory", "accuracy", "balanced")


class MeasuredConfig(NamedTuple):
    """A configuration, what it reached, and what was predicted of it before, if anything was: by metric and bound."""

    config: TrainConfig
    metrics: Metrics
    predicted: dict[str, dict[str, float]] | None


@dataclass(frozen=True, slots=True)
class FrontRow:
    """One measured configuration.

    Attributes:
        config: What ran.
        measured: What it reached.
        predicted: What was predicted before it ran, by metric: its mean, low and high; None where nothing was.
        feasible: Whether it keeps the limits as measured.
        on_front: Whether no other feasible measured configuration dominates it.
        labels: What it is: `default`, `chosen`, or the best of a priority.
        broken: The limits that it breaks, each with by how much.
    """

    config: TrainConfig
    measured: Metrics
    predicted: dict[str, dict[str, float]] | None
    feasible: bool
    on_front: bool
    labels: tuple[str, ...]
    broken: tuple[Breach, ...] = ()

    def describe_broken(self) -> str:
        """Returns the broken limits in a few words, "" where none is; files of older versions say no more than that."""
        return ", ".join(breach.short() for breach in self.broken) or ("" if self.feasible else "over a limit")

    def to_dict(self) -> dict[str, Any]:
        """Returns the row as JSON types."""
        return {
            "labels": list(self.labels),
            "on_front": self.on_front,
            "feasible": self.feasible,
            "broken": [dataclasses.asdict(breach) for breach in self.broken],
            "config": self.config.to_dict(),
            "measured": self.measured.to_dict(),
            "predicted": self.predicted,
        }


@dataclass(frozen=True, slots=True)
class Front:
    """Every measured configuration of a tune, best of each priority named.

    Attributes:
        rows: In order of falling throughput.
        memory: The metric that the memory axis shows.
        limit_bytes: The limit on it, or None.
    """

    rows: tuple[FrontRow, ...]
    memory: str
    limit_bytes: int | None

    @classmethod
    def of(cls, measured: Sequence[MeasuredConfig], objectives: Objectives, chosen: TrainConfig | None = None) -> Self:
        """Returns the front of `measured` under the limits of `objectives`; it names the best of every priority."""
        broken = [objectives.limits.broken_by(one.metrics) for one in measured]
        on_front = np.zeros(len(measured), dtype=np.bool_)
        best: dict[int, list[str]] = {}
        kept = [i for i, breaches in enumerate(broken) if not breaches]
        if kept:
            feasible = [measured[i].metrics for i in kept]
            on_front[kept] = non_dominated(objectives.measured_costs(feasible))
            for pick in PICKS:
                picked = dataclasses.replace(objectives, priority=Priority.parse(pick)).best_index(feasible)
                best.setdefault(kept[picked], []).append(pick)
        rows = []
        for i, (config, metrics, predicted) in enumerate(measured):
            own = ["chosen"] if config == chosen else []
            own += ["default"] if config == TrainConfig().canonical() else []
            labels = (*own, *best.get(i, ()))
            rows.append(FrontRow(config, metrics, predicted, not broken[i], bool(on_front[i]), labels, broken[i]))
        rows.sort(key=lambda row: -row.measured.throughput_epochs_per_s)
        return cls(tuple(rows), objectives.memory, objectives.memory_limit_bytes)

    def csv(self) -> str:
        """Returns the rows as CSV, one column per knob and per metric, sizes in bytes."""
        out = io.StringIO()
        knobs = [name for name in TrainConfig().to_dict() if name != "schema_version"]
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*knobs, *METRICS, *(f"predicted_{name}" for name in METRICS), *_FLAGS])
        for row in self.rows:
            predicted = [(row.predicted or {}).get(name, {}).get("mean", "") for name in METRICS]
            measured = [getattr(row.measured, name) for name in METRICS]
            flags = [row.on_front, row.feasible, " ".join(row.labels), row.describe_broken()]
            writer.writerow([*(getattr(row.config, name) for name in knobs), *measured, *predicted, *flags])
        return out.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Returns the front as one JSON object."""
        return {
            "memory": self.memory,
            "limit_bytes": self.limit_bytes,
            "rows": [row.to_dict() for row in self.rows],
        }

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Returns the front that `a3gnn tune --out FOLDER` wrote.

        Raises:
            ConfigError: The folder holds no finished tune, or one of another version.
        """
        path = Path(folder) / "front.json"
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            rows = tuple(
                FrontRow(
                    config=TrainConfig.from_dict(row["config"]),
                    measured=Metrics.from_dict(row["measured"]),
                    predicted=row["predicted"],
                    feasible=row["feasible"],
                    on_front=row["on_front"],
                    labels=tuple(row["labels"]),
                    broken=tuple(map(Breach.from_dict, row.get("broken", ()))),
                )
                for row in fields["rows"]
            )
            return cls(rows, fields["memory"], fields["limit_bytes"])
        except FileNotFoundError:
            raise ConfigError(
                f"{folder} must be the --out folder of a finished a3gnn tune, but it holds no front.json; "
                f"run a3gnn tune --out {folder} first"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, A3GNNError) as error:
            raise ConfigError(
                f"{path} must be a front that this version of a3gnn wrote: {error}; tune again"
            ) from error


_FLAGS = ("on_front", "feasible", "labels", "broken")
