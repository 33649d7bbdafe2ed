"""The table of how many rows of a setting the surrogate needs, on a few shipped rows."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.measurement import METRICS, Measurement
from a3gnn.prediction import Prediction
from a3gnn_surrogate.evaluate import SPLITS, HeldOut, held_out
from a3gnn_surrogate.rows import by_setting
from benchmarks.surrogate_card import FirstRows, errors_by_graph, lines


@pytest.mark.weekly  # a benchmark's, which a person runs
def test_errors_are_of_each_graph_and_compared_with_the_most_rows(rows: list[Measurement]) -> None:
    graphs = {row.setting.graph.fingerprint for row in rows}
    found = {count: errors_by_graph(held_out(rows, SPLITS[2], FirstRows(count))) for count in (3, 100)}
    assert found[3].shape == found[100].shape == (len(graphs), 4)
    assert np.isfinite(found[3][:, :3]).all()
    assert (found[3][:, 0] != found[100][:, 0]).any()
    head, _, few, many = lines(found)
    assert head.count("|") == few.count("|") == many.count("|") == 6
    assert few.startswith("| 3 | ")
    assert "(" in few
    assert "(" not in many


def test_only_the_first_rows_of_a_setting_are_fitted_to(rows: list[Measurement]) -> None:
    done = [row for row in rows if row.metrics is not None]
    is_default = [[row.config == TrainConfig() for row in group] for group in by_setting(done).values()]
    assert FirstRows(2).fit(done).num_rows_ == sum(sum(one) + min(2, len(one) - sum(one)) for one in is_default)


def test_an_exact_prediction_has_no_error_and_a_double_one_that_of_its_logarithm(rows: list[Measurement]) -> None:
    row = next(row for row in rows if row.metrics is not None)
    idle = row.setting.hardware.profile.idle_host_bytes
    truth = np.full((1, len(METRICS)), 0.5)
    truth[0, METRICS.index("peak_host_bytes")] = idle + 2**20
    double = truth.copy()
    double[0, METRICS.index("throughput_epochs_per_s")] = 1.0
    settings = np.array(["one"])
    exact, off = (
        errors_by_graph(HeldOut((row,), settings, truth, Prediction(mean, mean, mean))) for mean in (truth, double)
    )
    assert exact[0] == pytest.approx(np.zeros(4), abs=1e-9)
    assert off[0] == pytest.approx([100 * np.log(2), 0, 0, 0])
