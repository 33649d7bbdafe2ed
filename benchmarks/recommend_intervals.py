"""How often measurements lie in the intervals that `a3gnn recommend` shows, on graphs that are new to it.

    python -m benchmarks.recommend_intervals [--profiles FILE.jsonl.gz]

Each graph of the profiles is held out in turn: a surrogate is fitted to the others, and what it forecasts of the held
out graph's configurations is held against what they reached. The default's part of a ratio is the median of its trials.
Columns: how many figures were measured; the share that the intervals hold, which should be 90 %; that of the worst
graph; the mean factor from the middle of an interval to its ends (of accuracy, points); and by what all intervals would
have to be multiplied, in logarithms, to hold 90 %.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.measurement import Measurement
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.profiling.store.shipped import shipped_measurements
from a3gnn.setting import Setting
from a3gnn.tuning.arguments import make_request
from a3gnn.tuning.forecast import Forecast
from a3gnn.tuning.history import History
from a3gnn.tuning.interval import Interval
from a3gnn.tuning.outlook import Outlook
from a3gnn.tuning.study import Study
from a3gnn_surrogate.known_curves import KnownCurves
from a3gnn_surrogate.memory import training_peak
from a3gnn_surrogate.references import by_setting
from a3gnn_surrogate.surrogate import Surrogate

#: What is held against its interval; of accuracy the difference counts, of all else the logarithm.
FIGURES = (
    "throughput_epochs_per_s",
    "throughput_over_default",
    "peak_host_bytes",
    "accuracy_beside_default",
    "seconds_over_default",
)
_COVERAGE = 0.9


class Held(NamedTuple):
    """One measured figure beside its forecast.

    Attributes:
        graph: The held-out graph's name.
        error: Measured less forecast.
        width: From the middle of the interval to the end on that side.
    """

    graph: str
    error: float
    width: float


def held_out(measurements: Sequence[Measurement]) -> Iterator[tuple[str, Held]]:
    """Yields the name of each figure that was measured of a configuration but the default, and how it came out."""
    done = [row for row in measurements if row.metrics is not None]
    for rows in by_setting(done).values():
        graph = rows[0].setting.graph
        others = [row for row in done if row.setting.graph.fingerprint != graph.fingerprint]
        fitted = Surrogate(seed=0).fit(others, graph.fingerprint)
        outlook = outlook_of(rows[0].setting, fitted)
        for config, measured in _measured(rows):
            best, _ = Forecast.pair(outlook, config)
            for name, value in measured.items():
                yield name, _held(name, graph.name, value, getattr(best, name))


def outlook_of(
    setting: Setting, fitted: Surrogate, priority: str = "throughput", host_memory_limit: int | None = None
) -> Outlook:
    """Returns what is predicted of a study of `setting`, which may lose a point of accuracy."""
    request = make_request(
        priority=priority,
        memory_limit=None,
        host_memory_limit=host_memory_limit,
        max_accuracy_drop=1.0,
        budget=1,
        engine="local",
        task=setting.task,
        fix=None,
        ranges=None,
    )
    return Outlook.of(History(Study.of(request, setting)), fitted)


def _measured(rows: Sequence[Measurement]) -> Iterator[tuple[TrainConfig, dict[str, float]]]:
    """Yields each configuration of a setting's `rows` but the default, and what was measured of it by `FIGURES`."""
    curves, default = KnownCurves.of(rows), TrainConfig().canonical()
    base = median(row.metrics.throughput_epochs_per_s for row in rows if row.metrics and row.config == default)
    seconds = curves.default_seconds()
    for row, learnt in zip(rows, curves.learnt(rows), strict=True):
        if row.metrics is None or row.config == default:
            continue
        speed = row.metrics.throughput_epochs_per_s
        found = {
            "throughput_epochs_per_s": speed,
            "throughput_over_default": speed / base,
            "peak_host_bytes": training_peak(row.metrics, row.setting.hardware),
        }
        if curves.reference is not None:
            found["accuracy_beside_default"] = 100 * (learnt.val_accuracy - curves.reference.val_accuracy)
        if seconds is not None:
            found["seconds_over_default"] = learnt.seconds / seconds
        yield row.config, {name: value for name, value in found.items() if np.isfinite(value)}


def _held(name: str, graph: str, value: float, interval: Interval) -> Held:
    if name != "accuracy_beside_default":
        value, interval = float(np.log(value)), Interval(*np.log(interval).tolist())
    error = value - interval.mean
    return Held(graph, error, interval.high - interval.mean if error > 0 else interval.mean - interval.low)


def line(name: str, found: Sequence[Held]) -> str:
    """Returns the table's line of the figure `name`."""
    inside: dict[str, list[bool]] = defaultdict(list)
    for one in found:
        inside[one.graph].append(abs(one.error) <= one.width)
    worst = min(inside, key=lambda graph: float(np.mean(inside[graph])))
    width = float(np.mean([one.width for one in found]))
    needed = float(np.quantile([abs(one.error) / max(one.width, 1e-12) for one in found], _COVERAGE))
    shown = f"{width:.1f} points" if name == "accuracy_beside_default" else f"{np.exp(width):.2f} x"
    covered = float(np.mean([abs(one.error) <= one.width for one in found]))
    return (
        f"{name:26}{len(found):6}{covered:9.0%}{float(np.mean(inside[worst])):8.0%} {worst[:24]:25}"
        f"{shown:>12}{needed:9.2f}"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", type=Path, help="other measurements than those that ship")
    options = parser.parse_args()
    rows = list(read_measurements(options.profiles)) if options.profiles else shipped_measurements()
    found: dict[str, list[Held]] = defaultdict(list)
    for name, one in held_out(rows):
        found[name].append(one)
    print(f"{'':26}{'rows':>6}{'held':>9}{'worst graph':>14}{'':20}{'half-width':>12}{'needed':>9}")
    for name in FIGURES:
        if found[name]:
            print(line(name, found[name]))


if __name__ == "__main__":
    main()
