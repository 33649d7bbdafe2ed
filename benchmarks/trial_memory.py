"""How the peak of a trial's memory varies where nothing about its configuration does.

    python -m benchmarks.trial_memory [FILE.jsonl.gz ...]

Of what exceeds an idle process's peak, in stored measurements (by default those that ship): how much more it is where
a trial trained its curve than where the same configuration only timed mini-batches since that was known, and by how
much repetitions that trained nothing differ. Columns: configurations with both kinds, the median of the difference in
MiB and its deciles; configurations with repetitions, and the relative standard deviation of those; the variance of
configurations' logarithms within a graph, and the largest R2 that a prediction of single trials can have. Of files:
R2, mean error and median absolute error of the logarithms that a surrogate predicts which is fitted to the profiles of
other graphs, where all trials train (`a3gnn_surrogate.memory`).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.measurement import Measurement
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.profiling.store.shipped import shipped_measurements
from a3gnn_surrogate.memory import training_peak
from a3gnn_surrogate.surrogate import Surrogate

_PEAK = "peak_host_bytes"


class Peaks(NamedTuple):
    """MiB that the trials of one configuration took above an idle process.

    Attributes:
        trained: Of those that trained their curve, float64, shape (n,).
        timed: Of those that trained nothing of it, float64, shape (m,).
    """

    trained: NDArray[np.float64]
    timed: NDArray[np.float64]


def peaks_of(measurements: Sequence[Measurement]) -> dict[tuple[str, str], Peaks]:
    """Returns the peaks of each configuration, by its setting and its own key."""
    found: dict[tuple[str, str], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for row in measurements:
        above = 0 if row.metrics is None else row.metrics.peak_host_bytes - row.setting.hardware.profile.idle_host_bytes
        if row.metrics is not None and above > 0:
            key = ":".join(row.setting.key()), row.config.key()
            found[key][not row.metrics.curve_train_seconds].append(above / 2**20)
    return {key: Peaks(*map(np.array, parts)) for key, parts in found.items()}


def line(name: str, found: dict[tuple[str, str], Peaks]) -> str:
    """Returns the table's line of the file `name`."""
    both = [one for one in found.values() if len(one.trained) and len(one.timed)]
    more = np.array([np.median(one.trained) - np.median(one.timed) for one in both])
    repeated = [np.log(one.timed).var(ddof=1) for one in found.values() if len(one.timed) > 1]
    settings = defaultdict(list)
    for (setting, _), one in found.items():
        settings[setting].append(np.log(np.concatenate(one)).mean())
    within = float(np.mean([np.var(means, ddof=1) for means in settings.values() if len(means) > 1]))
    noise = float(np.mean(repeated))
    low, middle, high = np.quantile(more, (0.1, 0.5, 0.9))
    return (
        f"{name[:24]:25}{len(more):8}{middle:8.1f}{low:7.1f}{high:7.1f}{len(repeated):10}{np.sqrt(noise):8.1%}"
        f"{within:10.3f}{1 - noise / within:7.2f}"
    )


def predicted(rows: Sequence[Measurement], corpus: Sequence[Measurement]) -> str:
    """Returns the columns of what is predicted of `rows`, of one setting, by a surrogate that saw none of the graph."""
    setting = rows[0].setting
    others = [row for row in corpus if row.setting.graph.fingerprint != setting.graph.fingerprint]
    done = [(row.config, row.metrics) for row in rows if row.metrics is not None]
    found = Surrogate(seed=0).fit(others, setting.graph.fingerprint).predict([config for config, _ in done], setting)
    peaks = np.array([training_peak(metrics, setting.hardware) for _, metrics in done])
    truth, mean = (np.log(one - setting.hardware.profile.idle_host_bytes) for one in (peaks, found.column(_PEAK)))
    error = mean - truth
    return f"{1 - (error**2).mean() / truth.var():8.2f}{error.mean():8.2f}{np.median(np.abs(error)):8.2f}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", help="files of measurements, such as grids")
    options = parser.parse_args()
    columns = f"{'both':>8}{'MiB':>8}{'10 %':>7}{'90 %':>7}{'repeated':>10}{'noise':>8}{'within':>10}{'R2':>7}"
    print(f"{'':25}{columns}" + (f"{'found':>8}{'mean':>8}{'median':>8}" if options.files else ""))
    corpus = shipped_measurements()
    for path in options.files:
        rows = list(read_measurements(path))
        print(line(path.name, peaks_of(rows)) + predicted(rows, corpus), flush=True)
    if not options.files:
        print(line("shipped", peaks_of(corpus)))


if __name__ == "__main__":
    main()
