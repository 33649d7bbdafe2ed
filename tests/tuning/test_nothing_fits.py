"""What a tune says and runs if nothing fits in memory, by formulas."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest

from a3gnn.errors import InfeasibleError
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.profiling.request import TrialRequest
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.units import parse_size
from tests.lines import everything
from tests.tuning.formulas import Formulas


@pytest.mark.parametrize("limit", ["1MiB", "50MiB", "255MiB"])
def test_one_remedy_is_named_and_the_trial_beyond_the_limit_keeps_what_was_printed(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas], limit: str
) -> None:
    """A process takes some 250 MiB before it trains, and the smallest configuration more than any of these limits."""
    lines: list[str] = []
    machine = formulas()
    with pytest.raises(InfeasibleError) as caught:
        quick_tune(executor=machine, memory_limit=limit, priority="throughput", notify=everything(lines))
    (begun,) = [line for line in lines if line.startswith("nothing fits")]
    (most,) = re.findall(r"with a limit of (\S+ \S+) for this trial", begun)
    assert machine.ran[-1].plan.host_limit_bytes == pytest.approx(parse_size(most), rel=0.005)
    text = "\n".join([*lines, str(caught.value)])
    assert len(re.findall(r"memory_limit='\d+MiB'", text)) == 1
    assert f"memory_limit='{math.ceil(caught.value.smallest_limit_bytes / 2**20)}MiB'" in str(caught.value)
    assert caught.value.smallest_limit_bytes <= machine.ran[-1].plan.host_limit_bytes


def test_trials_that_kept_the_memory_but_not_the_time_are_not_said_to_need_memory(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas]
) -> None:
    def late_on_disk(request: TrialRequest, metrics: Metrics, before: int) -> Failure:
        if request.config.feature_tier == "ram":
            return Failure(FailureKind.OUT_OF_MEMORY, "passed the limit of 4.00 GiB", 5 << 30, float(4 << 30))
        return Failure(FailureKind.TIMEOUT, "took longer than 3 min, and was at x.py:8 in f", 450 << 20, 180.0)

    lines: list[str] = []
    machine = formulas(late_on_disk)
    with pytest.raises(InfeasibleError) as caught:
        quick_tune(executor=machine, memory_limit="4GiB", budget=15.0, notify=everything(lines))
    assert re.search(r"\d+ of them only because their time ended: they kept the limits on memory", str(caught.value))
    assert "Give a larger budget, as a duration" in str(caught.value)
    assert not [line for line in lines if line.startswith("nothing fits")]
