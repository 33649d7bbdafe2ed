"""What is recommended without a trial, held against measured grids of graphs that the surrogate has never seen.

    python -m benchmarks.recommended --grids FILE.jsonl.gz ... [--profiles FILE.jsonl.gz]

A grid is a file of `python -m benchmarks.grids`. Of its configurations the best predicted score is taken among those
that keep the limits as probably as `a3gnn recommend` asks, per priority, without a limit on memory, with the default's
(and 5 % more) and with the quartiles of the grid's peaks, which are those of trainings
(`a3gnn_surrogate.physics.memory`). What is true is the median over replicates. Columns: how often nothing was
recommended; how often what was keeps all limits as measured; the share of the best score that it has, mean and least, 0
where it breaks a limit; and the default's share, with the same rule.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.limits import Limits
from a3gnn.objectives import PRESETS, Objectives, Priority
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.setting import Setting
from a3gnn.tuning.beliefs.outlook import Outlook
from a3gnn.tuning.engines.predicted_best import probability_of_keeping
from a3gnn.tuning.study.history import DEFAULT_TOLERANCE, History
from a3gnn.tuning.study.study import Study, TuneRequest
from a3gnn_surrogate.physics.memory import training_peak
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.emulated.measured import MeasuredDefault, by_setting
from benchmarks.report import add_profiles, profiles


class Truth(NamedTuple):
    """What a grid's configurations reached.

    Attributes:
        configs: The default first.
        figures: Of each one's trials that did not fail.
        peaks: Median peaks of host memory in bytes, had they trained their curves, float64, shape (n_configs,).
    """

    configs: list[TrainConfig]
    figures: list[list[Figures]]
    peaks: NDArray[np.float64]

    @classmethod
    def of(cls, default: MeasuredDefault) -> Truth:
        """Returns what the rows of `default` say."""
        groups = {
            config: [row.metrics for row in rows if row.metrics is not None]
            for config, rows in default.by_config.items()
        }
        done = {config: found for config, found in groups.items() if found}
        found = [
            [Figures.of(one, default.curves.get(config.learning_key()), default.reference) for one in metrics]
            for config, metrics in done.items()
        ]
        hardware = default.rows[0].setting.hardware
        peaks = [np.median([training_peak(one, hardware) for one in metrics]) for metrics in done.values()]
        return cls(list(done), found, np.array(peaks))

    def scores(self, objectives: Objectives) -> NDArray[np.float64]:
        """Returns the scores in doublings, -inf of what breaks a limit, float64, shape (n_configs,)."""
        scores = np.array([np.median(objectives.measured_score(found)) for found in self.figures])
        limits = objectives.limits
        accuracies = np.array([np.median([one.val_accuracy or 0.0 for one in found]) for found in self.figures])
        kept = (accuracies >= (limits.least_accuracy or 0.0)) & (self.peaks <= (limits.host_bytes or np.inf))
        return np.where(kept, scores, -np.inf)


class Recommended(NamedTuple):
    """What was recommended in one case.

    Attributes:
        share: Of the best score; 0 where a limit is broken, NaN where nothing was recommended.
        default: The same of the default.
    """

    share: float
    default: float


def recommended(default: MeasuredDefault, fitted: Surrogate, priority: str) -> Iterator[Recommended]:
    """Yields what a surrogate that saw no row of the graph recommends by `priority` under each limit on memory."""
    truth, setting = Truth.of(default), default.rows[0].setting
    limits = (1 + DEFAULT_TOLERANCE) * truth.peaks[0], *np.quantile(truth.peaks, (0.25, 0.5, 0.75))
    for limit in (None, *map(int, limits)):
        objectives = Objectives(
            Limits(host_bytes=limit, least_accuracy=default.reference.target),
            Priority.parse(priority),
            setting.hardware.has_device,
        )
        scores = truth.scores(objectives)
        if not np.isfinite(scores).any():
            continue  # nothing keeps the limits: whatever is recommended breaks one
        place = _best_predicted(truth.configs, _outlook(setting, fitted, priority, limit))
        share = np.exp2(scores - scores.max())
        yield Recommended(float("nan") if place is None else float(share[place]), float(share[0]))


def _outlook(setting: Setting, fitted: Surrogate, priority: str, host_memory_limit: int | None) -> Outlook:
    """Returns what is predicted of a study of `setting` that may lose a point of accuracy."""
    request = TuneRequest("", setting.task, Priority.parse(priority), None, host_memory_limit, 1.0, 1, "ei")
    return Outlook.of(History(Study.of(request, setting)), fitted)


def _best_predicted(configs: Sequence[TrainConfig], outlook: Outlook) -> int | None:
    prediction = outlook.predict(configs)
    rows = np.array([outlook.space.encode(config) for config in configs])
    probable = np.flatnonzero(probability_of_keeping(outlook, rows, prediction))
    score = outlook.objectives.score(prediction)
    return int(probable[score[probable].argmax()]) if len(probable) else None


def line(name: str, found: Sequence[Recommended]) -> str:
    """Returns the table's line of a priority."""
    shares = np.array([one.share for one in found])
    given = shares[np.isfinite(shares)]
    kept = f"{(given > 0).mean():9.0%}{given.mean():9.0%}{given.min():9.0%}" if len(given) else f"{'':27}"
    return f"{name:14}{len(found):7}{len(found) - len(given):9}{kept}{np.mean([one.default for one in found]):10.0%}"


def main() -> None:
    """Prints a line per priority, and one of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grids", type=Path, nargs="+", required=True, help="files of measured grids")
    add_profiles(parser)
    options = parser.parse_args()
    corpus = profiles(options)
    measured = by_setting([row for path in options.grids for row in read_measurements(path)])
    every: list[Recommended] = []
    print(f"{'priority':14}{'cases':>7}{'nothing':>9}{'kept':>9}{'share':>9}{'least':>9}{'default':>10}")
    fitted = []
    for default in measured:
        graph = default.rows[0].setting.graph.fingerprint
        others = [row for row in corpus if row.setting.graph.fingerprint != graph]
        fitted.append(Surrogate(seed=0).fit(others, graph))
    for name in tuple(PRESETS):
        pairs = zip(measured, fitted, strict=True)
        found = [one for default, surrogate in pairs for one in recommended(default, surrogate, name)]
        print(line(name, found), flush=True)
        every += found
    print(line("all", every))


if __name__ == "__main__":
    main()
