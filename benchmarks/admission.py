"""How often what is predicted to keep a limit on memory breaks it when it is measured, on graphs that are held out.

    python -m benchmarks.admission [--profiles FILE.jsonl.gz]

Limits are the deciles of a setting's measured peaks, and the default's largest one and 5 % more, as with
`--memory-limit default`. A configuration is admitted where it keeps the limit with a probability of `FEASIBLE` and
more, as everything that is searched, proposed or recommended; or, to compare, with other probabilities. Columns: how
many decisions; the share that is admitted; of these the share that breaks the limit as measured, and by how much at
most; of the refused the share that would have kept it. Peaks are those of a training (`a3gnn_surrogate.memory`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.limits import FEASIBLE
from a3gnn.measurement import METRICS, Measurement
from a3gnn.prediction import Prediction
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.profiling.store.shipped import shipped_measurements
from a3gnn.tuning.history import DEFAULT_TOLERANCE
from a3gnn_surrogate.evaluate import SPLITS, HeldOut, held_out
from a3gnn_surrogate.memory import training_peak
from a3gnn_surrogate.references import by_setting
from a3gnn_surrogate.surrogate import Surrogate

_PEAK = METRICS.index("peak_host_bytes")


class Decision(NamedTuple):
    """What was decided of rows under one limit.

    Attributes:
        over: Measured peak over the limit, float64, shape (n,).
        admitted: bool, shape (n,).
    """

    over: NDArray[np.float64]
    admitted: NDArray[np.bool_]


#: Returns which predictions are admitted under a limit in bytes, bool, shape (n,).
Rule = Callable[[Prediction, float], NDArray[np.bool_]]


def _rule(probability: float) -> Rule:
    return lambda found, limit: found.no_worse("peak_host_bytes", limit) >= probability


#: The last is that of the upper bound of an interval of 90 %.
RULES: dict[str, Rule] = {f"probability of {one:g}": _rule(one) for one in (FEASIBLE, 0.8, 0.95)}


def limits_of(measurements: Sequence[Measurement]) -> dict[str, list[float]]:
    """Returns the limits of each setting in bytes, by its `setting_key`."""
    found = {}
    for key, rows in by_setting(row for row in measurements if row.metrics is not None).items():
        peaks = np.array([training_peak(row.metrics, row.setting.hardware) for row in rows if row.metrics is not None])
        default = peaks[[row.config == TrainConfig() for row in rows]]
        most = (1 + DEFAULT_TOLERANCE) * default.max(keepdims=True)
        found[key] = [*np.quantile(peaks, np.arange(0.1, 1.0, 0.1)), *most]
    return found


def decisions(held: HeldOut, limits: Mapping[str, Sequence[float]], rule: Rule) -> Iterator[Decision]:
    """Yields the decisions of `rule` on each setting of `held` under each of its limits."""
    for setting in np.unique(held.settings):
        own = np.flatnonzero(held.settings == setting)
        peaks, predicted = held.truth[own, _PEAK], held.prediction.take(own)
        for limit in limits[str(setting)]:
            yield Decision(peaks / limit, rule(predicted, limit))


def line(name: str, found: list[Decision]) -> str:
    """Returns the table's line of the rule `name`."""
    over, admitted = (np.concatenate(part) for part in zip(*found, strict=True))
    breaks = over > 1
    worst = over[admitted].max(initial=-np.inf)
    return (
        f"  {name:22}{len(over):8}{admitted.mean():10.0%}{_share(breaks[admitted]):10.1%}{worst - 1:10.1%}"
        f"{_share(~breaks[~admitted]):12.0%}"
    )


def _share(which: NDArray[np.bool_]) -> float:
    return float(which.mean()) if len(which) else float("nan")


def main() -> None:
    """Prints a table per split."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", type=Path, help="other measurements than those that ship")
    options = parser.parse_args()
    rows = list(read_measurements(options.profiles)) if options.profiles else shipped_measurements()
    limits = limits_of(rows)
    print(f"{'':24}{'cases':>8}{'admitted':>10}{'break it':>10}{'by most':>10}{'would keep':>12}")
    for split in SPLITS[1:]:
        held = held_out(rows, split, Surrogate(seed=0))
        print(split)
        for name, rule in RULES.items():
            print(line(name, list(decisions(held, limits, rule))), flush=True)


if __name__ == "__main__":
    main()
