"""What is predicted of a graph after some of its trials, by the shipped rows of three graphs."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.measurement import Measurement
from a3gnn_surrogate.rows import OUTPUTS
from benchmarks.after_trials import Judged, judged, table


def test_graphs_weigh_the_same_and_probabilities_are_judged_by_what_came(rows: list[Measurement]) -> None:
    def case(probability: list[float], reached: list[bool]) -> Judged:
        errors = np.full((1, len(OUTPUTS)), np.nan)
        return Judged(4, errors, np.ones_like(errors), np.array(probability), np.array(reached))

    found = {"g": [case([0.5], [True]), case([1.0], [True])], "h": [case([0.5], [False])]}
    (line,) = table(found)
    assert line.split() == ["4", "target", "in", "time", "0.188", "(0.062)", "0.62", "0.50"]


@pytest.mark.weekly
def test_what_was_tried_is_not_judged(rows: list[Measurement]) -> None:
    own = [row for row in rows if row.setting == rows[0].setting and row.metrics is not None]
    none, four = judged(rows, own, [0, 4], draws=1)
    assert (none.trials, four.trials) == (0, 4)
    assert len(four.errors) == len(four.widths) == len(none.errors) - 4
    assert len(four.probability) == len(four.reached) <= len(none.probability) - 4
    assert (none.probability >= 0).all()
    assert (none.probability <= 1).all()
    assert 0 < none.reached.sum() < len(none.reached)
