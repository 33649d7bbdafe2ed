"""`train --auto` beside the baseline's training."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import auto_gain
from benchmarks.auto_gain import Run, row


def run(seconds: float, values: list[float], test: float, trains: str = "choice") -> Run:
    """Returns a command with epochs of 1.5 s each, all but the rest of its `seconds`."""
    result: dict[str, Any] = {"val_accuracy": max(values), "test_accuracy": test, "config": {}}
    lines = [{"val_accuracy": value, "train_s": 1.25, "eval_s": 0.25} for value in values]
    return Run(seconds, result | {"auto": {"trains": trains}}, lines)


def test_seconds_to_the_target_leave_out_the_epochs_after_it() -> None:
    auto = run(20.0, [0.7, 0.8, 0.81, 0.82, 0.82], 0.8)
    assert auto.seconds_to(0.8) == pytest.approx(20 - 3 * 1.5)
    assert auto.seconds_to(0.9) is None
    assert run(9.0, [0.8, 0.7, 0.7, 0.7, 0.8], 0.8).seconds_to(0.8) == pytest.approx(9.0), "a touch that nothing keeps"


def test_a_row_has_ratios_of_rounds() -> None:
    baseline = run(40.0, [0.7, 0.78, 0.79, 0.79], 0.77, "baseline")
    pairs = [(run(20.0, [0.8, 0.81], 0.8), baseline), (run(30.0, [0.7, 0.71], 0.7, "baseline"), baseline)]
    found = row("graph", pairs)
    assert [one["trained"] for one in found["rounds"]] == ["choice", "baseline"]
    assert found["missed"] == 1
    assert found["whole"] == {"median": 0.625, "low": 0.5, "high": 0.75, "repeats": 2}
    assert found["to_target"]["median"] == pytest.approx((20 - 1.5) / (40 - 1.5)), "both until they kept it"
    assert found["val_accuracy"]["high"] == pytest.approx(2.0)
    assert found["test_accuracy"]["low"] == pytest.approx(-7.0)


@pytest.mark.weekly
def test_whole_commands_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = "synthetic:nodes=2000,degree=8,features=16,classes=4,seed=1"
    options = ["--epochs", "3", "--rounds", "1", "--json", str(tmp_path / "auto.json")]
    monkeypatch.setattr(sys, "argv", ["auto_gain", spec, *options])
    auto_gain.main()
    (only,) = json.loads((tmp_path / "auto.json").read_text())["rows"]
    assert only["rounds"][0]["trained"] == "baseline", "three epochs end within the first ten seconds"
    assert only["val_accuracy"]["median"] == only["test_accuracy"]["median"] == only["missed"] == 0
    assert "baseline" in capsys.readouterr().out
