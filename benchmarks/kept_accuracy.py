"""How well it is told which configurations keep the default's accuracy, on graphs that the surrogate has never seen.

    python -m benchmarks.kept_accuracy [--profiles FILE.jsonl.gz] [--grids FILE.jsonl.gz ...] [--measured 10 ...]

Each graph of the profiles is held out in turn, then each grid (`python -m benchmarks.grids`) by a surrogate that is
fitted to the profiles' other graphs. Of the default nothing is known but that it loses nothing: what `a3gnn recommend`
knows. With --measured, grids again once the default and others are measured, so many configurations in all: means over
--draws draws, of configurations that learn otherwise than all of them. Kept is an accuracy of at most a point under the
default's at equal training time. Columns, means over graphs of configurations but the default: how many there are; the
share that keep it; log loss and Brier score of the predicted probability, and in brackets of the share that keep it on
the other graphs, which knows no configuration; the area under the ROC curve, of graphs with both kinds; the share with
a probability of a half and more, and how many of these keep it; the median error in points.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from a3gnn.measurement import Measurement
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.profiling.store.shipped import shipped_measurements
from a3gnn.seeding import generator
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.acquisition.priors import MeasuredDefault, by_setting
from benchmarks.recommend_intervals import outlook_of
from benchmarks.recommended import Truth

#: Configurations of a graph from which it counts, and what probabilities are cut off at: the log loss of a certain
#: prediction that errs is infinite.
_LEAST_CONFIGS, _CERTAIN = 5, 0.02


class Graph(NamedTuple):
    """The configurations of one graph but the default.

    Attributes:
        kept: Which keep the default's accuracy less a point, bool, shape (n,).
        probability: With which that is predicted, float64, shape (n,).
        error: Predicted less measured accuracy beside the default's, float64, shape (n,).
    """

    kept: NDArray[np.bool_]
    probability: NDArray[np.float64]
    error: NDArray[np.float64]


def predicted(default: MeasuredDefault, fitted: Surrogate, measured: Sequence[Measurement] = ()) -> Graph:
    """Returns what `fitted`, which saw no row of the graph but those `measured`, says of its other configurations."""
    truth, outlook = Truth.of(default), outlook_of(default.rows[0].setting, fitted)
    known = {row.config.learning_key() for row in measured}
    others = np.array([config.learning_key() not in known for config in truth.configs])
    others[0] = False  # the default
    prediction = outlook.predict(truth.configs)
    accuracy = np.array([np.median([one.val_accuracy or 0.0 for one in found]) for found in truth.figures])
    beside = prediction.column("val_accuracy") - outlook.default_accuracy
    return Graph(
        (accuracy >= default.reference.target)[others],
        outlook.keeping(prediction)["least_accuracy"][others],
        (beside - (accuracy - default.reference.val_accuracy))[others],
    )


def when_measured(
    default: MeasuredDefault, corpus: Sequence[Measurement], count: int, random: np.random.Generator
) -> Graph:
    """Returns what is said once `count` configurations of a grid are measured, the default and drawn ones.

    Args:
        default: The grid's.
        corpus: Of other graphs.
        count: How many configurations.
        random: Draws them.
    """
    first = [next((row for row in rows if row.metrics is not None), None) for rows in default.by_config.values()]
    done = [row for row in first[1:] if row is not None]
    measured = [done[i] for i in random.permutation(len(done))[: count - 1]]
    measured.insert(0, next(row for row in default.rows if row.metrics is default.metrics))
    fingerprint = default.rows[0].setting.graph.fingerprint
    return predicted(default, Surrogate(seed=0).fit([*corpus, *measured], fingerprint), measured)


def held_out(corpus: Sequence[Measurement]) -> Iterator[Graph]:
    """Yields each graph of `corpus`, predicted by a surrogate that is fitted to the others."""
    for default in by_setting(corpus):
        graph = default.rows[0].setting.graph.fingerprint
        others = [row for row in corpus if row.setting.graph.fingerprint != graph]
        yield predicted(default, Surrogate(seed=0).fit(others, graph))


def line(name: str, graphs: Sequence[Graph], base: float) -> str:
    """Returns the table's line of `graphs`; `base` is the share that keeps the accuracy elsewhere."""
    losses = np.array([_losses(one.kept, one.probability) for one in graphs]).mean(axis=0)
    known = np.array([_losses(one.kept, np.full(len(one.kept), base)) for one in graphs]).mean(axis=0)
    areas = [roc_auc_score(one.kept, one.probability) for one in graphs if len(np.unique(one.kept)) == 2]
    likely = [one.probability >= 0.5 for one in graphs]
    right = [one.kept[own].mean() for one, own in zip(graphs, likely, strict=True) if own.any()]
    return (
        f"{name:20}{sum(len(one.kept) for one in graphs):6}{np.mean([one.kept.mean() for one in graphs]):7.0%}"
        f"{losses[0]:8.3f} ({known[0]:.3f}){losses[1]:8.3f} ({known[1]:.3f}){np.mean(areas):7.2f}"
        f"{np.mean([own.mean() for own in likely]):8.0%}{np.mean(right):7.0%}"
        f"{100 * np.mean([np.median(np.abs(one.error)) for one in graphs]):9.2f}"
    )


def _losses(kept: NDArray[np.bool_], probability: NDArray[np.float64]) -> tuple[float, float]:
    cut = np.clip(probability, _CERTAIN, 1 - _CERTAIN)
    return float(-np.log(np.where(kept, cut, 1 - cut)).mean()), float(((probability - kept) ** 2).mean())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", type=Path, help="other measurements than those that ship")
    parser.add_argument("--grids", type=Path, nargs="*", default=[], help="files of measured grids")
    parser.add_argument("--measured", type=int, nargs="*", default=[], help="configurations of a grid that are known")
    parser.add_argument("--draws", type=int, default=5, help="of those")
    options = parser.parse_args()
    corpus = list(read_measurements(options.profiles)) if options.profiles else shipped_measurements()
    print(f"{'':20}{'rows':>6}{'kept':>7}{'log loss':>16}{'Brier':>16}{'AUC':>7}{'likely':>8}{'kept':>7}{'points':>9}")
    graphs = [one for one in held_out(corpus) if len(one.kept) >= _LEAST_CONFIGS]
    base = float(np.mean([one.kept.mean() for one in graphs]))
    print(line("profiles", graphs, base), flush=True)
    for path in options.grids:
        default = by_setting(list(read_measurements(path)))[0]
        setting = default.rows[0].setting
        others = [row for row in corpus if row.setting.graph.fingerprint != setting.graph.fingerprint]
        grid = predicted(default, Surrogate(seed=0).fit(others, setting.graph.fingerprint))
        print(line(setting.graph.name[:20], [grid], base), flush=True)
        for count in options.measured:
            draws = [generator(draw, "kept_accuracy", count) for draw in range(options.draws)]
            found = [when_measured(default, others, count, random) for random in draws]
            print(line(f"  {count} measured", found, base), flush=True)


if __name__ == "__main__":
    main()
