"""Whether a tune's promise holds: its choice and the default, trained again by `a3gnn train` in alternation.

    a3gnn tune --dataset GRAPH --priority time ... --out runs/NAME
    python -m benchmarks.tuned_gain runs/NAME [runs/OTHER ...] [--rounds 3] [--json FILE]

Each round trains the choice and the default, each in a process of its own and with the task's seed, until both the
tune's target is reached and so many seconds are trained that an epoch's speed can be told; which comes first
alternates. Ratios are of the same round, and are compared with those in tuned.json: by how much the median is off, and
whether the promised median lies in the range that was measured again.
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
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from a3gnn.config import TrainConfig
from a3gnn.report.text import describe_config
from a3gnn.spread import Spread
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.comparison import Comparison
from benchmarks.report import write_report

#: Seconds of training from which an epoch's speed is told, and epochs at least: the first one is slower.
_SECONDS, _EPOCHS = 4.0, 5


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


def trained(tuned: TunedConfig, config: TrainConfig, folder: Path) -> dict[str, Any]:
    """Returns the result of `a3gnn train` with `config`, for as long as the tune's budget and `_SECONDS` ask for."""
    assert tuned.measured is not None, "it has ratios to the default, which were measured"
    epochs_per_s = tuned.measured.throughput_epochs_per_s
    if config != tuned.config and tuned.against_default is not None:
        epochs_per_s /= tuned.against_default["throughput"]["median"]
    seconds = max(_SECONDS, tuned.default_budget_s or 0.0)
    epochs = max(_EPOCHS, math.ceil(seconds * epochs_per_s))
    dataclasses.replace(tuned, config=config).write(folder / "tuned.json")
    command = [sys.executable, "-m", "a3gnn", "train", "--config", str(folder / "tuned.json"), "--json"]
    options = ["--epochs", str(epochs), "--patience", str(epochs), "--out", str(folder / "run")]
    run = subprocess.run([*command, *options], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"training with {describe_config(config)} failed: {run.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def rounds(tuned: TunedConfig, count: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Returns the results of the choice and of the default, per round."""
    found = []
    for number in range(count):
        results = {}
        configs = [("choice", tuned.config), ("default", TrainConfig())]
        for name, config in configs if number % 2 == 0 else configs[::-1]:
            with tempfile.TemporaryDirectory() as folder:
                results[name] = trained(tuned, config, Path(folder))
        found.append((results["choice"], results["default"]))
    return found


def compared(tuned: TunedConfig, found: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Again]:
    """Returns the ratios that tuned.json promises beside those of the rounds, by name; those that both have."""
    assert tuned.against_default is not None
    promise = Comparison.from_dict(tuned.against_default)
    throughput = Spread.of(one["throughput_epochs_per_s"] / other["throughput_epochs_per_s"] for one, other in found)
    times = [(one["seconds_to_accuracy"], other["seconds_to_accuracy"]) for one, other in found]
    seconds = Spread.of(default / choice for choice, default in times if choice and default)
    pairs = {"epochs/s": (promise.throughput, throughput), "seconds to accuracy": (promise.time, seconds)}
    return {name: Again(said, again) for name, (said, again) in pairs.items() if said and again}


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("tuned", nargs="+", type=Path, help="tuned.json, or the folder of a tune")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    return made


def main() -> None:
    """Prints a line per tune and ratio, and how well the promises held."""
    options, console = parser().parse_args(), Console(width=160, highlight=False)
    shown = Table("graph", "choice over default", "promised", "trained again", "off", "inside")
    rows: list[dict[str, Any]] = []
    for path in options.tuned:
        tuned = TunedConfig.read(path)
        name = tuned.setting.graph.name
        if tuned.against_default is None:
            shown.add_row(name, "nothing was measured" if tuned.measured is None else "the default is the choice")
            continue
        for ratio, again in compared(tuned, rounds(tuned, options.rounds)).items():
            said, measured = again.promised.describe(), again.measured.describe()
            shown.add_row(name, ratio, said, measured, f"{again.off:.0%}", "yes" if again.inside else "no")
            own = {"promised": again.promised.to_dict(), "again": again.measured.to_dict(), "off": again.off}
            rows.append({"graph": name, "config": tuned.config.to_dict(), "ratio": ratio, **own, "in": again.inside})
    console.print(shown)
    for ratio in dict.fromkeys(row["ratio"] for row in rows):
        own = [row for row in rows if row["ratio"] == ratio]
        off = statistics.median(row["off"] for row in own)
        console.print(f"{ratio}: off by {off:.0%} in the median of {len(own)}; {sum(r['in'] for r in own)} inside")
    if options.json:
        write_report(options.json, rows=rows)


if __name__ == "__main__":
    main()
