"""Peaks of trainings beside those of their trials."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import training_peaks


@pytest.mark.weekly
def test_trainings_are_compared_with_their_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = "synthetic:nodes=2000,degree=8,features=16,classes=4,seed=1"
    options = ["--configs", "2", "--trainings", "1", "--seconds", "0.5", "--json", str(tmp_path / "peaks.json")]
    monkeypatch.setattr(sys, "argv", ["training_peaks", spec, *options])
    training_peaks.main()
    rows = json.loads((tmp_path / "peaks.json").read_text())["rows"]
    assert all(row["trial_bytes"] > 0 and row["batches"] > 0 and abs(row["excess"][0]) < 50 for row in rows)
    assert f"{len(rows)} pairs" in capsys.readouterr().out
