"""Which configurations are told to keep the default's accuracy."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.measurement import Measurement
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.acquisition.priors import by_setting
from benchmarks.kept_accuracy import Graph, line, predicted, when_measured


def test_a_line_scores_probabilities_and_what_knows_no_configuration() -> None:
    one = Graph(np.array([True, True, False, True]), np.array([0.9, 0.8, 0.3, 0.4]), np.array([0.01, 0.0, 0.02, -0.03]))
    other = Graph(np.array([True, True]), np.array([0.6, 0.4]), np.array([0.0, 0.0]))
    shown = line("grid", [one, other], 0.5).replace("(", "").replace(")", "").split()
    assert shown[:3] == ["grid", "6", "88%"]
    mine = (-np.log([0.9, 0.8, 0.7, 0.4]).mean() - np.log([0.6, 0.4]).mean()) / 2
    assert float(shown[3]) == pytest.approx(mine, abs=1e-3)
    assert float(shown[4]) == pytest.approx(np.log(2), abs=1e-3)
    assert shown[6:] == ["0.250", "1.00", "50%", "100%", "0.75"]


def test_the_default_is_left_out_and_what_keeps_its_accuracy_is_by_its_target(rows: list[Measurement]) -> None:
    default = by_setting(rows)[0]
    graph = default.rows[0].setting.graph.fingerprint
    found = predicted(default, Surrogate(seed=0).fit([row for row in rows if row.setting.graph.fingerprint != graph]))
    done = sum(any(row.metrics is not None for row in own) for own in default.by_config.values())
    assert len(found.kept) == len(found.probability) == len(found.error) == done - 1
    assert ((found.probability >= 0) & (found.probability <= 1)).all()


def test_what_learns_as_a_measured_configuration_does_is_left_out(rows: list[Measurement]) -> None:
    default = by_setting(rows)[0]
    graph = default.rows[0].setting.graph.fingerprint
    others = [row for row in rows if row.setting.graph.fingerprint != graph]
    found = when_measured(default, others, 4, np.random.default_rng(0))
    keys = {config.learning_key() for config, own in default.by_config.items() if any(row.metrics for row in own)}
    assert 0 < len(found.kept) <= len(default.by_config) - 4
    assert len(found.kept) >= len(keys) - 4
