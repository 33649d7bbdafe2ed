import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.pipeline.allocate import Solution, solve
from a3gnn.seeding import generator


def by_trying_all(seconds: list[NDArray[np.float64]], cores: int, floor: float) -> tuple[float, int]:
    """Returns the least time and the fewest cores that reach it."""
    choices = itertools.product(*(range(1, min(len(times), cores) + 1) for times in seconds))
    return min(
        (max(floor, *(times[c - 1] for times, c in zip(seconds, choice, strict=True))), sum(choice))
        for choice in choices
        if sum(choice) <= cores
    )


@pytest.mark.parametrize("instance", range(150))
def test_nothing_beats_the_solution(instance: int) -> None:
    draw = generator(instance, "test_solver")
    stages, cores = int(draw.integers(1, 5)), int(draw.integers(4, 10))
    seconds = []
    for _ in range(stages):
        shared, fixed = draw.uniform(0, 10), draw.choice([0.0, draw.uniform(0, 3)])
        times = shared / np.arange(1, draw.integers(1, cores + 3)) + fixed
        # Whole milliseconds bring ties; noise brings times that rise with cores.
        seconds.append(np.round(times + draw.choice([0.0, 1.0]) * draw.uniform(0, 1, len(times)), 1))
    seconds = [times if len(times) else np.array([1.0]) for times in seconds]
    floor = float(draw.choice([0.0, 2.0]))
    solution = solve(seconds, cores, floor)
    assert (solution.seconds, sum(solution.cores)) == by_trying_all(seconds, cores, floor)
    slowest = max(times[c - 1] for times, c in zip(seconds, solution.cores, strict=True))
    assert solution.seconds == max(slowest, floor)


def test_a_floor_leaves_cores_idle() -> None:
    stage = 8.0 / np.arange(1, 17)
    assert solve([stage, stage], 16) == Solution((8, 8), 1.0)
    assert solve([stage, stage], 16, floor=4.0) == Solution((2, 2), 4.0)


def test_a_stage_that_no_core_speeds_up_has_one() -> None:
    assert solve([np.array([5.0]), 10.0 / np.arange(1, 9)], 8) == Solution((1, 2), 5.0)


def test_four_stages_on_128_cores() -> None:
    threads = np.arange(1, 129)
    times = [10 / threads, 20 / threads + 0.05, 30 / threads, 4 / threads + 0.1]
    solution = solve(times, 128)
    assert sum(solution.cores) <= 128
    # Moving a core from any stage to another makes no mini-batch faster.
    for giver, taker in itertools.permutations(range(4), 2):
        moved = list(solution.cores)
        moved[giver] -= 1
        moved[taker] += 1
        assert moved[giver] == 0 or max(t[c - 1] for t, c in zip(times, moved, strict=True)) >= solution.seconds


@pytest.mark.parametrize(("stages", "cores"), [(3, 2), (0, 4)])
def test_too_few_cores_are_refused(stages: int, cores: int) -> None:
    with pytest.raises(UsageError, match=f"got {stages} stages and {cores} cores"):
        solve([np.ones(4)] * stages, cores)
