"""Trainings and predictions that are killed at random end as undisturbed ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_weights_and_predictions_survive_kills(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.apply.killed_runs", str(tmp_path / "runs"), "--kills", "6"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [found[name]["kills"] for name in ("train", "predict")] == [6, 6]
    assert found["train"]["continued"] > 0
