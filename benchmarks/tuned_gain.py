"""Whether a tune's promise holds: its choice and the default, trained again by `a3gnn train` in alternation.

    a3gnn tune --dataset GRAPH --priority time ... --out runs/NAME
    python -m benchmarks.tuned_gain runs/NAME [runs/OTHER ...] [--rounds 5] [--seeds 1] [--until-target] [--json FILE]

Each round trains the choice and the default, each in a process of its own and with the same seed, for as long as the
tune's budget was for the default, but long enough that an epoch's speed can be told; which comes first alternates. The
first round has the task's seed, and with --seeds the others have further ones. Ratios are of the same round, and are
compared with those in tuned.json: by how much the median is off, and whether the promised median lies in the range
that was measured again. With three rounds a promise that is exactly right lies outside by chance in one case of four,
with five in one of sixteen. Of a tune's folder, the trials that broke a limit or failed are counted too.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, Self

from rich.console import Console
from rich.table import Table

from a3gnn.config import TrainConfig
from a3gnn.figures import Spread
from a3gnn.objectives import memory_metric
from a3gnn.report.text import describe_config
from a3gnn.threads.core_time import stretch
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.tuning.study.folder import Journal, read_request
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.study import Study
from benchmarks.report import write_report

#: Seconds of training from which an epoch's speed is told, and epochs at least: the first one is slower.
_SECONDS, _EPOCHS = 4.0, 5
#: Factors on the learning rate that the default is trained with, beside the choices: those of the space above 1.
RATES = (2.0, 4.0)
#: The figure that is a difference, not a ratio.
_POINTS = "points of validation"


class Round(NamedTuple):
    """What `a3gnn train` printed of the choice and of the default."""

    choice: dict[str, Any]
    default: dict[str, Any]

    def ratio(self, name: str) -> float:
        """Returns the choice's figure over the default's."""
        return float(self.choice[name] / self.default[name])

    @property
    def slower(self) -> float:
        """How many times as long stolen time made the choice's training take, over that of the default's."""
        return stretch(self.choice["stolen_share"]) / stretch(self.default["stolen_share"])


class Again(NamedTuple):
    """What training again gives of one ratio.

    Attributes:
        promised: As tuned.json says.
        measured: Per round.
    """

    promised: Spread
    measured: Spread

    @property
    def off(self) -> float:
        """By how much the median measured again differs from the promised one, as a share of that."""
        return abs(self.measured.median / self.promised.median - 1)

    @property
    def inside(self) -> bool:
        """Whether the promised median lies in the range that was measured again."""
        return self.measured.low <= self.promised.median <= self.measured.high


def rate_alone(tuned: TunedConfig, scale: float) -> TunedConfig:
    """Returns the default of the tune with `scale` times its learning rate, as if the tune had chosen that.

    The share of a gain that needs no other knob: a rate costs nothing, so the default's speed is its own.
    """
    assert tuned.measured is not None, "it has ratios to the default, which were measured"
    gain = 1.0 if tuned.against_default is None else tuned.against_default["throughput"]["median"]
    speed = tuned.measured.throughput_epochs_per_s / gain
    measured = dataclasses.replace(tuned.measured, throughput_epochs_per_s=speed)
    config = TrainConfig(learning_rate_scale=scale)
    return dataclasses.replace(tuned, config=config, measured=measured, against_default=None, no_gain=None)


def trained(tuned: TunedConfig, config: TrainConfig, seed: int, folder: Path, *, until_target: bool) -> dict[str, Any]:
    """Returns the result of `a3gnn train` with `config` and `seed`, for as long as the budget and `_SECONDS` ask."""
    assert tuned.measured is not None, "it has ratios to the default, which were measured"
    epochs_per_s = tuned.measured.throughput_epochs_per_s
    if config != tuned.config and tuned.against_default is not None:
        epochs_per_s /= tuned.against_default["throughput"]["median"]
    seconds = max(_SECONDS, tuned.default_budget_s or 0.0)
    epochs = max(_EPOCHS, math.ceil(seconds * epochs_per_s))
    setting = dataclasses.replace(tuned.setting, task=dataclasses.replace(tuned.setting.task, seed=seed))
    dataclasses.replace(tuned, config=config, setting=setting).write(folder / "tuned.json")
    command = [sys.executable, "-m", "a3gnn", "train", "--config", str(folder / "tuned.json"), "--json"]
    options = ["--epochs", str(epochs), "--patience", str(epochs), "--out", str(folder / "run")]
    options += ["--until-target"] if until_target else []
    run = subprocess.run([*command, *options], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"training with {describe_config(config)} failed: {run.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def rounds(tuned: TunedConfig, count: int, seeds: int, *, until_target: bool) -> list[Round]:
    """Returns the results of `count` rounds, over which `seeds` seeds go round."""
    found = []
    for number in range(count):
        results = {}
        configs = [("choice", tuned.config), ("default", TrainConfig())]
        for name, config in configs if number % 2 == 0 else configs[::-1]:
            with tempfile.TemporaryDirectory() as folder:
                seed = tuned.setting.task.seed + number % seeds
                results[name] = trained(tuned, config, seed, Path(folder), until_target=until_target)
        found.append(Round(results["choice"], results["default"]))
    return found


def compared(tuned: TunedConfig, found: list[Round], *, accuracy: bool) -> dict[str, Again]:
    """Returns what tuned.json promises beside what the rounds give, by name; what both have.

    Speeds and memory are ratios, accuracy is a difference in points. Of speeds, stolen time is taken out.
    """
    assert tuned.against_default is not None
    promise = Comparison.from_dict(tuned.against_default)
    memory = memory_metric(tuned.setting.hardware.has_device)
    times = ((one.default["seconds_to_accuracy"], one.choice["seconds_to_accuracy"], one.slower) for one in found)
    pairs = {
        "epochs/s": (promise.throughput, Spread.of(one.slower * one.ratio("throughput_epochs_per_s") for one in found)),
        "seconds to accuracy": (
            promise.time,
            Spread.of(slower * default / choice for default, choice, slower in times if default and choice),
        ),
        "memory": (Spread.of([promise.memory]), Spread.of(one.ratio(memory) for one in found)),
        _POINTS: (
            promise.accuracy if accuracy else None,
            Spread.of(100 * (one.choice["val_accuracy"] - one.default["val_accuracy"]) for one in found),
        ),
    }
    return {name: Again(said, again) for name, (said, again) in pairs.items() if said and again}


class Spent(NamedTuple):
    """The trials that a tune's budget counts, the verification's left out.

    Attributes:
        trials: How many.
        lost: Of these, those that broke a limit or failed.
        trials_s: Seconds that all took.
        lost_s: Seconds of those that were lost.
    """

    trials: int
    lost: int
    trials_s: float
    lost_s: float

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Returns those of the tune in `folder`."""
        trials = Journal(folder).read()
        history = History(Study.of(read_request(folder), trials[0].measurement.setting), tuple(trials))
        broke = {id(one.trial) for one in history.measured() if history.breaches(one)}
        counted = [trial for trial in trials if trial.counts]
        lost = [trial for trial in counted if trial.metrics is None or id(trial) in broke]
        seconds = (sum(trial.measurement.seconds for trial in some) for some in (counted, lost))
        return cls(len(counted), len(lost), *seconds)


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("tuned", nargs="+", type=Path, help="tuned.json, or the folder of a tune")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--seeds", type=int, default=1, help="over which the rounds go, from the task's on")
    made.add_argument("--until-target", action="store_true", help="train no longer than that; tells no accuracy")
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    return made


def main() -> None:
    """Prints a line per tune and figure, and how well the promises held."""
    options, console = parser().parse_args(), Console(width=160, highlight=False)
    shown = Table("graph", "choice and default", "promised", "trained again", "off", "inside", "lost trials")
    rows: list[dict[str, Any]] = []
    for path in options.tuned:
        tuned = TunedConfig.read(path)
        lost = "{0.lost} of {0.trials}".format(Spent.of(path)) if path.is_dir() else ""
        name = tuned.setting.graph.name
        if tuned.against_default is None:
            why = "nothing was measured" if tuned.measured is None else "the default is the choice"
            shown.add_row(name, why, *[""] * 4, lost)
            continue
        found = rounds(tuned, options.rounds, options.seeds, until_target=options.until_target)
        for figure, again in compared(tuned, found, accuracy=not options.until_target).items():
            said, measured = again.promised.describe(), again.measured.describe()
            off = "" if figure == _POINTS else f"{again.off:.0%}"
            shown.add_row(name, figure, said, measured, off, "yes" if again.inside else "no", lost)
            rows.append(
                {"graph": name, "config": tuned.config.to_dict(), "figure": figure, "lost": lost}
                | {"promised": again.promised.to_dict(), "again": again.measured.to_dict(), "inside": again.inside}
            )
    console.print(shown)
    for figure in dict.fromkeys(row["figure"] for row in rows):
        console.print(_summary(figure, [row for row in rows if row["figure"] == figure]))
    if options.json:
        write_report(options.json, rows=rows)


def _summary(figure: str, rows: list[dict[str, Any]]) -> str:
    inside = f"{sum(row['inside'] for row in rows)} of {len(rows)} promises inside"
    again = [row["again"]["median"] for row in rows]
    if figure == _POINTS:
        return f"{figure}: {statistics.fmean(again):+.2f} in the mean; {inside}"
    off = statistics.median(abs(one / row["promised"]["median"] - 1) for one, row in zip(again, rows, strict=True))
    mean = statistics.geometric_mean(again)
    return f"{figure}: {mean:.2f} x in the geometric mean; off by {off:.0%} in the median; {inside}"


if __name__ == "__main__":
    main()
