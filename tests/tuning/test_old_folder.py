"""The folder of a tune from before trials were called so: `old_folder` holds what that version wrote, by formulas."""

import json
from pathlib import Path

from a3gnn.config import TrainConfig
from a3gnn.measurement import FailureKind, Metrics
from a3gnn.tuning.outcome.result import unfinished_front
from a3gnn.tuning.study.folder import Journal

OLD = Path(__file__).parent / "old_folder"


def test_its_trials_are_read_as_they_were_written() -> None:
    trials = Journal(OLD).read()
    lines = (OLD / "probes.jsonl").read_text(encoding="utf-8").splitlines()
    assert [trial.reason for trial in trials] == ["default", "default"]
    assert trials[0].measurement.outcome.kind is FailureKind.OUT_OF_MEMORY
    assert isinstance(trials[1].measurement.outcome, Metrics)
    for trial, line in zip(trials, map(json.loads, lines), strict=True):
        assert trial.predicted == line["predicted"]
        assert trial.measurement.id == line["measurement"]["id"]
        assert trial.measurement.seconds == line["measurement"]["seconds"]


def test_it_shows_its_front() -> None:
    front = unfinished_front(OLD)
    assert front is not None
    assert [row.config for row in front.rows] == [TrainConfig(feature_tier="disk")]
    assert front.rows[0].on_front
