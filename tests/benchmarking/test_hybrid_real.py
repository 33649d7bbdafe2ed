"""What real trainers take, and by how much the performance model misses it: that it is measured, not how much it is."""

from __future__ import annotations

import math

import pytest

from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.task import Task
from benchmarks.hybrid.real import STAGES, Division, measure, stage_seconds
from benchmarks.hybrid.real_error import Errors, errors, probed_model
from benchmarks.hybrid.real_tables import errors_table

DIVISIONS = (Division((1,), (128,)), Division((1, 1), (96, 32)))
TASK = Task(model="gcn", fanouts=(5, 3), hidden_channels=16)
HARDWARE = Hardware("cpu", 2, 2**34, "", 0, 0, MachineProfile(6e7, 1e10, 2e9, 2e11, 1e10, 0.9, 1e-3, 0))


@pytest.fixture(scope="module")
def measured(small_graph: Graph):
    return measure(small_graph, TASK, DIVISIONS, rounds=2)


def test_every_whole_mini_batch_but_the_first_of_a_round_is_measured(small_graph, measured):
    whole = len(small_graph.train_ids) // 128
    for division, found in measured.items():
        assert len(found.epochs) == len(found.mteps) == 2
        assert len(found.times) == 2 * (whole - 1)
        assert len(found.times) == len(found.computed)
        assert len(found.undisturbed.training) == len(division.shares)
        assert all(seconds > 0 for seconds in (*found.undisturbed.training, *found.stage_seconds))
        for times, computed in zip(found.times, found.computed, strict=True):
            assert times.sampling_processor + times.loading + max(times.training) <= times.iteration
            seconds = dict(zip(STAGES, stage_seconds(times, computed), strict=True))
            assert seconds["training, CPU"] == max(computed)
            assert seconds["iteration, CPU"] <= times.iteration + 1e-3  # clocks of their own


def test_processor_time_is_of_one_thread_alone(small_graph):
    two = Division((2,), (128,))
    assert all(math.isnan(seconds) for seconds in measure(small_graph, TASK, [two], 1)[two].undisturbed.training)


def test_shares_repeat_edges_of_the_input_layer(measured):
    one, two = (measured[division].traversed for division in DIVISIONS)
    assert one <= two <= 2 * one


def test_errors_are_of_each_stage_and_calibrated_but_for_the_run_that_calibrates(small_graph, measured):
    model = probed_model(HARDWARE, small_graph, TASK, DIVISIONS)
    first, second = errors(model, 2, measured, DIVISIONS)
    assert first.calibrated is None
    assert second.calibrated is not None
    assert len(first.raw) == len(second.raw) == len(STAGES)
    assert math.isnan(first.raw[STAGES.index("synchronised")])
    assert all(math.isfinite(error) and error > -1 for error in (*second.raw, *second.calibrated))
    # Scaling a stage by one factor moves the errors of all divisions by it.
    raw = (1 + second.raw[0]) / (1 + first.raw[0])
    assert 1 + second.calibrated[0] == pytest.approx(raw)


def test_the_errors_table_has_medians_and_largest_of_what_is_known():
    nothing = math.nan
    rows = [
        Errors(DIVISIONS[0], (0.1, -0.2, 0.3, nothing, 0.1, 0.1, nothing), None),
        Errors(DIVISIONS[1], (-0.3, 0.2, 0.3, -0.9, 0.1, 0.1, nothing), (0.05, -0.01, 0.0, -0.9, 0.1, 0.1, nothing)),
    ]
    table = errors_table(rows)
    cells = dict(zip(STAGES, zip(*(list(column.cells) for column in table.columns[1:]), strict=True), strict=True))
    assert cells["sampling"] == ("20.0% / 30.0%", "5.0% / 5.0%")
    assert cells["synchronised"] == ("90.0% / 90.0%", "90.0% / 90.0%")
    assert cells["iteration, CPU"] == ("", "")
