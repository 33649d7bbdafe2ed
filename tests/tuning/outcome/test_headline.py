"""The headline of a tune: time and memory always, accuracy if it falls, and a word on gains that are not settled."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from a3gnn.config import TrainConfig
from a3gnn.figures import LEAST_PAIRS, MANY_DISTURBED, Spread, doubts
from a3gnn.report.front import Front
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.tuning.tell.summary import summary, summary_lines

REAL = Path(__file__).parents[2] / "page" / "real_tune"


@pytest.mark.parametrize(
    ("gain", "runs", "disturbed", "none", "expected"),
    [
        (Spread(5.48, 3.1, 9.5, 8), 8, 0.0, 1.0, ()),
        (Spread(1.74, 0.99, 3.04, 8), 8, 0.0, 1.0, ("not settled",)),
        (Spread(0.9, 0.7, 1.0, 8), 8, 0.0, 1.0, ("not settled",)),
        (Spread(0.5, 0.4, 0.6, 8), 8, 0.0, 1.0, ()),
        (Spread(1.77, 1.77, 1.77, 1), 1, 1.0, 1.0, ("one run", "disturbed")),
        (Spread(3.0, 2.0, 4.0, 4), 4, 0.0, 1.0, ("4 of 5 runs",)),
        (Spread(3.0, 2.0, 4.0, 5), 5, MANY_DISTURBED, 1.0, ()),
        (Spread(3.0, 2.0, 4.0, 5), 5, 0.5, 1.0, ("disturbed",)),
        (Spread(0.5, -0.1, 0.9, 5), 5, 0.0, 0.0, ("not settled",)),
        (Spread(0.5, 0.1, 0.9, 5), 5, 0.0, 0.0, ()),
    ],
)
def test_a_gain_is_settled_by_its_range_its_runs_and_a_quiet_machine(
    gain: Spread, runs: int, disturbed: float, none: float, expected: tuple[str, ...]
) -> None:
    assert LEAST_PAIRS == 5
    assert doubts(gain, runs, disturbed, none) == expected


def told(
    time: tuple[float, float, float] | None = (6.0, 5.0, 7.0), runs: int = 8, memory: float = 0.72, **fields: Any
) -> str:
    """Returns the headline of a tune of a kind; `time` is as measured, before it is widened for one more training."""
    tuned, front = TunedConfig.read(REAL), Front.read(REAL)
    against = Comparison(
        throughput=Spread(2.0, 1.9, 2.1, runs),
        time=None if time is None else Spread(*time, runs),
        memory=memory,
        accuracy=fields.pop("accuracy", Spread(0.1, 0.0, 0.2, 3)),
        differs=True,
        memory_most=memory,
        **fields,
    )
    tuned = dataclasses.replace(tuned, against_default=against.to_dict(), no_gain=None, final=None)
    return summary(tuned, dataclasses.replace(front, speed="seconds_to_accuracy")).headline.partition(": ")[2]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "6.00x sooner at 76.50%, -28% memory"),
        ({"memory": 1.17}, "6.00x sooner at 76.50%, +17% memory"),
        ({"memory": 1.0}, "6.00x sooner at 76.50%, 0% memory"),
        ({"time": (1.74, 1.6, 1.9)}, "about 1.7x sooner at 76.50% (0.99 to 3.04, not settled), -28% memory"),
        (
            {"time": (1.77, 1.77, 1.77), "runs": 1, "disturbed": 1.0, "memory": 1.17},
            "about 1.8x sooner at 76.50% (one run, disturbed), +17% memory",
        ),
        ({"disturbed": 0.5}, "about 6.0x sooner at 76.50% (3.43 to 10.50, disturbed), -28% memory"),
        ({"disturbed": 0.5, "left_out": 3}, "6.00x sooner at 76.50%, -28% memory"),
        ({"time_at_least": True}, "at least 6.00x sooner at 76.50%, -28% memory"),
        ({"time": (0.5, 0.4, 0.55)}, "0.50x as fast at 76.50%, -28% memory"),
        ({"time": None}, "2.00x the epochs per second, -28% memory"),
        ({"accuracy": Spread(1.2, 1.0, 1.4, 3)}, "6.00x sooner at 76.50%, -28% memory"),
        (
            {"accuracy": Spread(-0.3, -0.4, -0.2, 3)},
            "6.00x sooner at 76.50%, -28% memory, -0.30 points of validation accuracy",
        ),
        ({"accuracy": None}, "6.00x sooner at 76.50%, -28% memory, accuracy not compared"),
    ],
    ids=str,
)
def test_the_headline_of_a_tune_for_time(fields: dict[str, Any], expected: str) -> None:
    assert told(**fields) == expected


def test_a_tune_for_throughput_names_the_seconds_too() -> None:
    tuned, front = TunedConfig.read(REAL), Front.read(REAL)
    assert front.speed == "throughput_epochs_per_s"
    headline = summary(tuned, front).headline
    assert "x the epochs per second" in headline
    assert " at 76.50%" in headline
    assert "% memory" in headline


def test_changed_knobs_are_lines_by_the_names_of_fix() -> None:
    tuned, front = TunedConfig.read(REAL), Front.read(REAL)
    found = summary(tuned, front)
    own, baseline = tuned.config.canonical().to_dict(), TrainConfig().canonical().to_dict()
    assert {one.name for one in found.changed} == {name for name in own if own[name] != baseline[name]}
    lines = list(summary_lines(found, REAL))
    start = next(i for i, line in enumerate(lines) if line.startswith("Changed "))
    shown = lines[start : start + len(found.changed)]
    assert [line[11:].split()[0] for line in shown] == [one.name for one in found.changed]
    assert len({line.index(" -> ") for line in shown}) == 1
    assert any("(sample)" in line and "-> mode2" in line for line in shown)
    assert all(len(line) <= 80 for line in shown)
    assert found.model == tuned.setting.task.describe()
    assert f"Model      {found.model}"[:40] in "\n".join(summary_lines(found, everything=True))


def test_next_has_a_command_per_line() -> None:
    tuned, front = TunedConfig.read(REAL), Front.read(REAL)
    lines = list(summary_lines(summary(tuned, front), REAL, more=["a3gnn tune --resume"]))
    assert [len(line.split("a3gnn ")) for line in lines[-3:]] == [2, 2, 2]
    assert [line.split()[-2:][0] for line in lines[-3:]] == ["train", "report", "tune"]


def test_a_long_change_goes_on_in_its_column() -> None:
    tuned, front = TunedConfig.read(REAL), Front.read(REAL)
    ends = {"val_accuracy": 0.9156, "test_accuracy": 0.912, "seconds": 73.9, "stopped": True}
    other = {**ends, "val_accuracy": 0.8916, "test_accuracy": 0.8884}
    tuned = dataclasses.replace(tuned, final={"default": ends, "other": other})
    lines = list(summary_lines(summary(tuned, front)))
    assert max(map(len, lines)) <= 80
    (at,) = [i for i, line in enumerate(lines) if line.startswith("  final test accuracy")]
    column = lines[at].index("-2.36 points")
    assert lines[at + 1] == f"{'':>{column}}choose"
    assert lines[at].endswith("not used to")


def test_the_headline_names_the_model_that_was_chosen() -> None:
    tuned, front = TunedConfig.read(REAL), Front.read(REAL)
    searched = dataclasses.replace(tuned, config=dataclasses.replace(tuned.config, searched=(("model", "gcn"),)))
    assert summary(tuned, front).headline.startswith("Tuned GraphSAGE on ")
    assert summary(searched, front).headline.startswith("Tuned GCN on ")
