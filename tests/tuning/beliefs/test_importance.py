"""The importance of knobs, against the surrogate's own predictions."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from a3gnn.errors import ConfigError
from a3gnn.tuning.beliefs.expectations import fit_surrogate, predict
from a3gnn.tuning.beliefs.importance import knob_importance
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.importance import keep_importance, read_importance


def test_knobs_rank_as_their_effect_on_the_predictions(tried: History, tmp_path: Path) -> None:
    surrogate = fit_surrogate(tried)
    found = knob_importance(tried, surrogate)
    assert found is not None
    assert found.knobs == tried.space.names
    assert found.trials == len({trial.measurement.config.key() for trial in tried.trials})
    assert min(found.explained) > 0.9  # or the values would explain something else than the surrogate
    rows = tried.space.enumerate()
    prediction = predict(surrogate, tried, tried.space.columns(rows))
    costs = tried.objectives.costs(prediction) * [1, 1, 100]
    for j, own in enumerate((found.speed, found.memory, found.accuracy)):
        if np.ptp(costs[:, j]) < 1e-9:
            assert not any(own)
            continue
        means = [
            [costs[rows[:, k] == value, j].mean() for value in np.unique(rows[:, k])] for k in range(rows.shape[1])
        ]
        effects = [np.ptp(of_knob) for of_knob in means]
        assert np.corrcoef(own, effects)[0, 1] > 0.8
        assert max(own) < np.ptp(costs[:, j])
    keep_importance(tmp_path, found)
    assert read_importance(tmp_path) == found


def test_without_trials_nothing_is_explained(tried: History, tmp_path: Path) -> None:
    nothing = dataclasses.replace(tried, trials=(), timings=())
    assert knob_importance(nothing, fit_surrogate(nothing)) is None
    assert read_importance(tmp_path) is None
    (tmp_path / "importance.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(ConfigError, match="remove it to go on without"):
        read_importance(tmp_path)
