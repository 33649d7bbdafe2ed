"""`Searching`, on a machine of numbers whose best preparation is known, before and after stages change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from a3gnn.pipeline.preparation import Preparation
from a3gnn.training.adapting.searching import Candidates, Searching, bound
from a3gnn.training.adapting.stage_times import StageTimes

SEQUENTIAL = Preparation("sequential", 0, 0, 0)


class Machine:
    """Stages that overlap as A3GNN's equations say, and are slower by `beside` beside each other.

    Args:
        sample, load, train: Seconds of a mini-batch, alone.
        beside: Factor on what runs beside something else.
        scatter: Standard deviation of a measurement's logarithm.
    """

    def __init__(self, sample: float, load: float, train: float, beside: float = 1.0, scatter: float = 0.0) -> None:
        self.sample, self.load, self.train, self.beside, self._scatter = sample, load, train, beside, scatter
        self._rng = np.random.default_rng(0)

    def times(self, preparation: Preparation) -> StageTimes:
        by = 1.0 if preparation.mode == "sequential" else self.beside
        noise = by * np.exp(self._scatter * self._rng.standard_normal(3))
        sample, load, train = (noise * (self.sample, self.load, self.train)).tolist()
        times = StageTimes(("processor",), sample, 0.0, load, (0.0,), (train,), 0.0)
        return times.with_iteration(bound(preparation, times))

    def seconds(self, preparation: Preparation) -> float:
        calm = Machine(self.sample, self.load, self.train, self.beside)
        return calm.times(preparation).iteration or 0.0

    def run(self, controller: Searching, start: Preparation, steps: int) -> list[Preparation]:
        found, current = [], start
        for _ in range(steps):
            current = controller.adjust(current, self.times(current))
            found.append(current)
        return found


def searching(
    start: Preparation = SEQUENTIAL,
    cores: int = 4,
    can_resize: bool = False,
    fits: Callable[[Preparation, Preparation], bool] = lambda wanted, now: True,
    expected: StageTimes | None = None,
    span_s: float = 0.0,
) -> Searching:
    return Searching(Candidates(start, cores, can_resize=can_resize, fits=fits), expected, span_s=span_s)


def reachable(cores: int = 4) -> list[Preparation]:
    modes = [Preparation(mode, n, n, 0) for mode in ("mode1", "mode2") for n in range(1, cores + 1)]
    return [SEQUENTIAL, *modes]


def test_nothing_is_tried_while_nothing_changes():
    """Measurements that scatter by a twentieth are no change, in any of ten runs of 300; by a tenth, hardly ever."""
    for scatter, most in ((0.05, 0), (0.1, 30)):
        tried = 0
        for seed in range(10):
            machine = Machine(3e-3, 3e-3, 10e-3, beside=1.5, scatter=scatter)
            machine._rng = np.random.default_rng(seed)
            tried += sum(one != SEQUENTIAL for one in machine.run(searching(), SEQUENTIAL, 300))
        assert tried <= most


@pytest.mark.parametrize(("span_s", "is_tried"), [(0.0, True), (0.25, False)])
def test_a_burst_that_is_shorter_than_a_measurement_changes_nothing(span_s, is_tried):
    machine, own = Machine(1e-3, 1e-3, 2e-3), searching(span_s=span_s)
    found = machine.run(own, SEQUENTIAL, 400)
    for _ in range(5):
        machine.load = 3e-3  # for ten steps of four mini-batches, a quarter of a second
        found += machine.run(own, SEQUENTIAL, 10)
        machine.load = 1e-3
        found += machine.run(own, SEQUENTIAL, 200)
    assert any(one != SEQUENTIAL for one in found) == is_tried


def test_what_lasts_changes_something_however_long_a_measurement_is():
    machine, own = Machine(1e-3, 1e-3, 2e-3), searching(span_s=0.25)
    machine.run(own, SEQUENTIAL, 400)
    machine.load = 6e-3
    found = machine.run(own, SEQUENTIAL, 1000)
    assert machine.seconds(found[-1]) <= 1.03 * min(map(machine.seconds, reachable()))


@pytest.mark.parametrize("beside", [1.0, 1.1, 1.5, 3.0])
@pytest.mark.parametrize("start", [SEQUENTIAL, Preparation("mode1", 1, 1, 0), Preparation("mode2", 2, 2, 0)], ids=str)
def test_once_loading_has_become_slow_the_best_is_found(start, beside):
    machine, own = Machine(3e-3, 2e-3, 10e-3, beside), searching(start)
    before = machine.run(own, start, 20)[-1]
    assert before == start
    machine.load = 20e-3
    after = machine.run(own, start, 80)
    best = min(map(machine.seconds, reachable()))
    assert machine.seconds(after[-1]) <= 1.03 * best
    assert len(set(after[-10:])) == 1
    assert own.drift is not None
    assert own.drift.stage == "loading"
    machine.load = 2e-3
    again = machine.run(own, after[-1], 80)
    assert machine.seconds(again[-1]) <= 1.03 * min(map(machine.seconds, reachable()))


def test_where_nothing_is_faster_what_was_there_is_kept_and_the_next_search_waits():
    def tried(own: Searching, changes: int) -> int:
        machine, found = Machine(1e-3, 1e-3, 10e-3, beside=3.0), []
        for number in range(changes):
            found += machine.run(own, SEQUENTIAL, 30)
            assert found[-1] == SEQUENTIAL
            machine.train *= 1 / 1.5 if number % 2 else 1.5
        return sum(one != SEQUENTIAL for one in found)

    at_once = tried(searching(), 2)
    assert at_once > 0
    assert 2 * at_once < tried(searching(), 20) < 10 * at_once


def test_the_first_search_without_a_gain_keeps_the_next_one_waiting_for_eight_measurements():
    machine, own = Machine(1e-3, 1e-3, 10e-3, beside=3.0), searching()
    machine.run(own, SEQUENTIAL, 20)
    machine.train *= 1.5
    found = machine.run(own, SEQUENTIAL, 30)
    tried = [place for place, one in enumerate(found) if one != SEQUENTIAL]
    # The same again, which ends as soon as what was there is back.
    machine, own = Machine(1e-3, 1e-3, 10e-3, beside=3.0), searching()
    machine.run(own, SEQUENTIAL, 20)
    machine.train *= 1.5
    assert machine.run(own, SEQUENTIAL, tried[-1] + 2)[-1] == SEQUENTIAL
    machine.run(own, SEQUENTIAL, 4)
    machine.train /= 1.5
    after = machine.run(own, SEQUENTIAL, 20)
    assert 2 <= next(place for place, one in enumerate(after) if one != SEQUENTIAL) <= 8


def test_what_does_not_fit_is_not_tried():
    machine = Machine(3e-3, 2e-3, 10e-3)
    own = searching(fits=lambda wanted, now: wanted.depth <= 1)
    machine.run(own, SEQUENTIAL, 10)
    machine.load = 20e-3
    found = machine.run(own, SEQUENTIAL, 60)
    assert {one.depth for one in found} == {0, 1}


def test_other_volumes_of_the_cache_are_tried_where_loading_has_changed():
    start = replace(SEQUENTIAL, cache_bytes=1 << 20)
    for stage, tries in (("load", True), ("train", False)):
        machine, own = Machine(3e-3, 4e-3, 10e-3), searching(start, can_resize=True)
        machine.run(own, start, 10)
        setattr(machine, stage, 4 * getattr(machine, stage))
        found = machine.run(own, start, 60)
        assert (1 << 19 in {one.cache_bytes for one in found}) == tries


def test_what_the_tune_measured_is_what_stages_are_compared_with():
    """A run that is slower from the begin than the tune promised tries at once; one that is not slower, never."""
    promised = Machine(3e-3, 2e-3, 10e-3).times(SEQUENTIAL)
    slow, own = Machine(3e-3, 20e-3, 10e-3), searching(expected=promised)
    assert len(set(slow.run(own, SEQUENTIAL, 40))) > 2
    assert "loading takes 20 ms now and took 2 ms before" in f"{own.drift}{own._because()}"
    fast, own = Machine(1e-3, 1e-3, 5e-3), searching(expected=promised)
    assert set(fast.run(own, SEQUENTIAL, 40)) == {SEQUENTIAL}


def test_a_search_ends_where_somebody_else_changes_what_runs():
    machine, own = Machine(3e-3, 2e-3, 10e-3), searching()
    machine.run(own, SEQUENTIAL, 10)
    machine.load = 20e-3
    current = SEQUENTIAL
    while current == SEQUENTIAL:
        current = own.adjust(current, machine.times(current))
    forced = Preparation("mode2", 3, 3, 0)
    assert set(machine.run(own, forced, 10)) == {forced}


def test_swapping_what_two_stages_took_changes_what_is_tried_first():
    """Sampling alone is long: mode 2 bounds it as mode 1 does. Loading alone is long: only mode 1 does."""
    near = Candidates(SEQUENTIAL, 4, can_resize=False, fits=lambda wanted, now: True).near
    for sample, load, modes in ((20e-3, 1e-3, {"mode1", "mode2"}), (1e-3, 20e-3, {"mode1"})):
        times = Machine(sample, load, 5e-3).times(SEQUENTIAL)
        found = near(SEQUENTIAL, times, 0.05, loading=False)
        fast = {one.mode for one in found if bound(one, times) < 0.7 * (times.iteration or 0)}
        assert fast == modes
