"""Trains the policy that proposes configurations, and judges such training on graphs that had no part in it.

    python -m benchmarks.policy train [--episodes N]
    python -m benchmarks.policy judge [--episodes N]

`train` writes the weights that ship, trained on all graphs of the profiles. `judge` trains on a part of the graphs. On
the others and on the measured grids' graphs it takes the best predicted score that keeps the limits among 256 rows of
the policy, among 256 random rows, among the rows of a local search from random starts, and of one that also starts from
the policy's. Predictions count as true; the surrogate was fitted without the judged graphs. Results go to
benchmarks/results/policy.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.limits import Limits
from a3gnn.measurement import Measurement
from a3gnn.objectives import PRESETS, Objectives, Priority
from a3gnn.prediction import Predict, Prediction
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.setting import Setting
from a3gnn.space import Rows, SearchSpace
from a3gnn.tuning.engines.improvement import STARTS, maximize
from a3gnn_envs.observation import Levels
from a3gnn_envs.policy import SHIPPED, Policy
from a3gnn_envs.situation import Situation
from a3gnn_surrogate.known_curves import KnownDefault
from a3gnn_surrogate.surrogate import Surrogate, given_default
from benchmarks.policy_training import imagined, train
from benchmarks.report import add_profiles, profiles, write_report

_RESULTS = Path(__file__).with_name("results")
#: Imagined settings beside the measured ones. Guess.
_IMAGINED = 400
#: Of the corpus' graphs that are in no grid, one in so many is held out.
_HELD_OUT = 5
#: Accuracy that is assumed of a default: only differences to it matter.
_ACCURACY = 0.5
#: Accuracy that may be lost, and rows to propose.
_DROP, _ROWS = 0.01, 256
#: Limits on memory: the default's predicted peak and 5 % more, or a quantile of random configurations' peaks.
_LIMITS = ("default", "quartile")
_TOLERANCE, _QUANTILE = 1.05, 0.25


def situation(setting: Setting, fitted: Surrogate) -> Situation:
    """Returns `setting` with the predictions of a surrogate that has no row of it."""
    space, surrogate = SearchSpace.of(setting), given_default(fitted, setting)
    default = KnownDefault(val_accuracy=_ACCURACY)
    return Situation(setting, lambda rows: surrogate.predict(space.columns(rows), setting, default), space)


def situations(settings: Sequence[Setting], fitted: Surrogate, seed: int) -> list[Situation]:
    """Returns the situations to train in: `settings`, as if without measurements, and imagined ones."""
    unknown = [
        dataclasses.replace(one, graph=dataclasses.replace(one.graph, fingerprint=f"unmeasured {number}"))
        for number, one in enumerate(settings)
    ]
    return [situation(one, fitted) for one in (*unknown, *imagined(settings, _IMAGINED, seed))]


def settings_of(rows: Sequence[Measurement]) -> list[Setting]:
    """Returns the settings of `rows`, one each."""
    return list({row.setting.key(): row.setting for row in rows}.values())


class Trained(NamedTuple):
    """A policy and its training.

    Attributes:
        policy: The policy.
        seconds: Of the training, without the fit of the surrogate.
        episodes: Their number.
        rewards: Mean reward after each twentieth of the training.
    """

    policy: Policy
    seconds: float
    episodes: int
    rewards: list[float]


def trained(rows: Sequence[Measurement], fitted: Surrogate, episodes: int, seed: int) -> Trained:
    """Returns a policy that is trained on the settings of `rows`, with predictions of `fitted`."""
    start, rewards = time.perf_counter(), list[float]()
    found = situations(settings_of(rows), fitted, seed)

    def report(done: int, reward: float) -> None:
        rewards.append(reward)
        if len(rewards) % 10 == 0:
            print(f"{done:>9,} episodes, {time.perf_counter() - start:5.0f} s, reward {reward:6.3f}", flush=True)

    policy, _ = train(found, episodes, seed, report=report)
    parts = np.array_split(np.array(rewards), min(20, len(rewards)))
    return Trained(policy, time.perf_counter() - start, episodes, [round(float(part.mean()), 3) for part in parts])


class Case(NamedTuple):
    """A judged graph with a limit.

    Attributes:
        situation: The setting and its predictions.
        predict: The predictions, without intervals.
        baseline: Prediction of the default.
        limits: On memory and accuracy.
    """

    situation: Situation
    predict: Predict
    baseline: Prediction
    limits: Limits

    def objectives(self, priority: str) -> Objectives:
        """Returns the goal of `priority`."""
        return Objectives(self.limits, Priority.parse(priority), self.situation.setting.hardware.has_device)

    def searched(self, priority: str, starts: Rows) -> Rows:
        """Returns the rows that local search evaluates from `starts`."""
        goal = self.objectives(priority)

        def value(rows: Rows) -> NDArray[np.float64]:
            prediction = self.predict(rows)
            violation = goal.limits.violation(prediction)
            return np.where(violation > 0, -1e6 - violation, goal.score(prediction))

        return maximize(self.situation.space, value, starts)[0]

    def proposed(self, policy: Policy, priority: str, seed: int, doubt: float) -> Rows:
        """Returns the rows that `policy` proposes."""
        goal, own = self.objectives(priority), self.situation
        return policy.propose(own.setting, own.space, goal, Levels(self.baseline), _ROWS, seed, doubt=doubt)


def cases(setting: Setting, fitted: Surrogate) -> Iterator[Case]:
    """Yields a case per limit."""
    own = situation(setting, fitted)

    def certain(rows: Rows) -> Prediction:
        found = own.predict(rows)
        return dataclasses.replace(found, low=found.mean, high=found.mean)

    baseline = certain(own.space.encode(TrainConfig())[None])
    peaks = certain(own.space.sample(1000, seed=1)).column("peak_host_bytes")
    bytes_of = {
        "default": _TOLERANCE * float(baseline.column("peak_host_bytes")[0]),
        "quartile": float(np.quantile(peaks, _QUANTILE)),
    }
    for name in _LIMITS:
        yield Case(own, certain, baseline, Limits(host_bytes=int(bytes_of[name]), least_accuracy=_ACCURACY - _DROP))


class Judged(NamedTuple):
    """The outcome for one case, priority and way to choose rows.

    Attributes:
        gain: The best score that keeps the limits less the default's, in doublings; -inf if none keeps them.
        kept: Share of the rows that keep the limits.
    """

    gain: float
    kept: float


def judged(case: Case, priority: str, rows: Rows) -> Judged:
    """Returns how good the best of `rows` is."""
    goal, prediction = case.objectives(priority), case.predict(rows)
    kept = goal.limits.violation(prediction) <= 0
    gains = goal.score(prediction) - goal.score(case.baseline)
    return Judged(float(gains[kept].max()) if kept.any() else -np.inf, float(kept.mean()))


def judge(policy: Policy, settings: Sequence[Setting], fitted: Surrogate) -> dict[str, dict[str, Any]]:
    """Returns per priority and way: means and standard errors over graphs of what 256 rows reach.

    Of each graph the mean over the limits counts. Where a way finds nothing that keeps the limits, it counts as the
    default, or as the least of all ways if that is less.
    """
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for setting in settings:
        own: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
        for case in cases(setting, fitted):
            for priority in PRESETS:
                random, policy_rows = (
                    case.situation.space.sample(STARTS, seed=0),
                    case.proposed(policy, priority, 0, 0.0),
                )
                ways: dict[str, Rows] = {
                    "policy": policy_rows,
                    "policy, doubt 0.5": case.proposed(policy, priority, 0, 0.5),
                    "policy's first row": policy_rows[:1],
                    "random": random[:_ROWS],
                    "local search": case.searched(priority, random),
                    "ceiling": case.searched(priority, np.concatenate([random, policy_rows])),
                }
                results = {way: judged(case, priority, rows) for way, rows in ways.items()}
                least = min([0.0, *(one.gain for one in results.values() if np.isfinite(one.gain))])
                for way, one in results.items():
                    gain = one.gain if np.isfinite(one.gain) else least
                    own.setdefault((priority, way), []).append((gain, one.kept, float(np.isfinite(one.gain))))
        for key, values in own.items():
            found.setdefault(key, []).append(tuple(np.mean(values, axis=0).tolist()))
        print(f"judged {setting.graph.name}", flush=True)
    table: dict[str, dict[str, Any]] = {}
    for (priority, way), values in found.items():
        array, ceiling = np.array(values), np.array(found[priority, "ceiling"])[:, 0]
        of = array.std(axis=0, ddof=1) / np.sqrt(len(array))
        behind = ceiling - array[:, 0]
        table.setdefault(priority, {})[way] = {
            "gain": _rounded(array[:, 0].mean(), of[0]),
            "behind_ceiling": _rounded(behind.mean(), behind.std(ddof=1) / np.sqrt(len(behind))),
            "keeps_limits": _rounded(array[:, 1].mean(), of[1]),
            "finds_some": round(float(array[:, 2].mean()), 3),
        }
    return table


def _rounded(mean: float, error: float) -> dict[str, float]:
    return {"mean": round(float(mean), 3), "standard_error": round(float(error), 3)}


def show(table: dict[str, dict[str, Any]]) -> None:
    """Prints the table of `judge`."""
    print(f"{'priority':12}{'rows of':22}{'gain':>16}{'behind ceiling':>18}{'keep limits':>13}{'finds':>7}")
    for priority, ways in table.items():
        for way, one in ways.items():
            gain, behind = (f"{one[key]['mean']:.2f} ({one[key]['standard_error']:.2f})" for key in list(one)[:2])
            kept = one["keeps_limits"]["mean"]
            print(f"{priority:12}{way:22}{gain:>16}{behind:>18}{kept:13.0%}{one['finds_some']:7.0%}")


def milliseconds(policy: Policy, setting: Setting, fitted: Surrogate) -> float:
    """Returns the median milliseconds in which `policy` proposes 256 rows."""
    case = next(cases(setting, fitted))
    times = []
    for seed in range(20):
        start = time.perf_counter()
        case.proposed(policy, "throughput", seed, 0.5)
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3


def split(rows: Sequence[Measurement], grids: Sequence[Setting]) -> tuple[list[Measurement], list[Setting]]:
    """Returns the rows to train on, and the settings to judge on: `grids`, and one in five other graphs."""
    gridded = {one.graph.fingerprint for one in grids}
    others = [one for one in settings_of(rows) if one.graph.fingerprint not in gridded]
    held = sorted(others, key=lambda one: one.graph.fingerprint)[::_HELD_OUT]
    unseen = gridded | {one.graph.fingerprint for one in held}
    return [row for row in rows if row.setting.graph.fingerprint not in unseen], [*grids, *held]


def run_judge(rows: Sequence[Measurement], episodes: int, out: Path, weights: Path | None) -> None:
    """Trains on a part of the graphs, judges on the others, and writes the results to `out`."""
    grids = settings_of([row for path in sorted(_RESULTS.glob("grids/*.jsonl.gz")) for row in read_measurements(path)])
    seen, unseen = split(rows, grids)
    fitted = Surrogate(seed=0).fit(seen, "none")
    if weights is not None and weights.exists():
        made = Trained(Policy.load(weights), 0.0, 0, [])
    else:
        made = trained(seen, fitted, episodes, seed=0)
        if weights is not None:
            made.policy.save(weights)
    table = judge(made.policy, unseen, fitted)
    show(table)
    write_report(
        out,
        graphs={"trained": len(settings_of(seen)), "judged": [one.graph.name for one in unseen]},
        training={"seconds": round(made.seconds), "episodes": made.episodes, "rewards": made.rewards},
        propose_ms=round(milliseconds(made.policy, unseen[0], fitted), 1),
        table=table,
    )


def main() -> None:
    """Trains the shipped weights, or judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "judge"))
    parser.add_argument("--episodes", type=int, default=300_000, help="episodes to train for, one prediction each")
    parser.add_argument("--weights", type=Path, help="for judge: weights to judge; trained and kept there if missing")
    parser.add_argument("--out", type=Path, default=_RESULTS / "policy.json", help="for judge: where results go")
    add_profiles(parser)
    options = parser.parse_args()
    rows = profiles(options)
    if options.what == "judge":
        run_judge(rows, options.episodes, options.out, options.weights)
        return
    made = trained(rows, Surrogate(seed=0).fit(rows, "none"), options.episodes, seed=0)
    made.policy.save(SHIPPED)
    print(f"{SHIPPED}: {SHIPPED.stat().st_size / 1024:.0f} KiB after {made.seconds:.0f} s")


if __name__ == "__main__":
    main()
