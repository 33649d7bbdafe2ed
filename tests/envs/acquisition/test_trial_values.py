from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from a3gnn_envs.acquisition.studies import FIDELITIES, QUARTER, TIMING, WHOLE, Studies
from a3gnn_envs.acquisition.trial_values import LEAST_LOG_VALUE, choose, incumbent, log_values, run_baseline
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, SPEED, WORK, World
from tests.envs.acquisition.worlds import BUDGET_S, CURVE_S, START_S, plain_world

NORMAL = NormalDist()
WEIGHTS = np.array([0.9, 0.05])


def study(**changes: Any) -> Studies:
    return Studies(World.stack([plain_world(**changes)], num_candidates=4))


def by_hand(studies: Studies, candidate: int, accuracy: float, accuracy_deviation: float, share: float) -> float:
    """Expected improvement over the default times the probability of both limits, per share of the budget.

    The target is reached by the accuracy after a `share` of the curve, and by the seconds to it.
    """
    mean, variance, noise = studies.beliefs.mean[0], studies.beliefs.variance[0], studies.world.noise[0]
    gain = -(WEIGHTS * (mean[:2, candidate] - mean[:2, 0])).sum()
    deviation = math.sqrt((WEIGHTS**2 * variance[:2, candidate]).sum())
    z = gain / deviation
    improvement = gain * NORMAL.cdf(z) + deviation * NORMAL.pdf(z)
    in_memory = NORMAL.cdf(
        (32.0 - mean[MEMORY, candidate]) / math.hypot(math.sqrt(variance[MEMORY, candidate]), noise[MEMORY])
    )
    accurate = NORMAL.cdf((-0.89 - accuracy) / accuracy_deviation)
    in_time = NORMAL.cdf(
        (math.log2(share) - mean[[SPEED, WORK], candidate].sum()) / math.sqrt(variance[[SPEED, WORK], candidate].sum())
    )
    seconds = START_S + CURVE_S * share
    return improvement * in_memory * math.sqrt(accurate * in_time) / (seconds / BUDGET_S)


def test_values_are_those_of_the_definitions() -> None:
    studies = study()
    found = np.exp(log_values(studies)[0])
    spread = math.sqrt(1e-4 + 1e-6)
    assert found[1, WHOLE] == pytest.approx(by_hand(studies, 1, -0.9, spread, 1.0), rel=1e-5)
    assert found[1, QUARTER] == pytest.approx(by_hand(studies, 1, -0.86, spread, 0.25), rel=1e-5)
    best = np.where(studies.allowed()[0], log_values(studies)[0, :-1], -np.inf).max()
    assert log_values(studies)[0, -1, TIMING] == pytest.approx(best - 1.5)


def test_a_timing_is_worth_nothing_until_the_curve_is_known_then_it_is_cheap() -> None:
    studies = study()
    assert log_values(studies)[0, 3, TIMING] == LEAST_LOG_VALUE
    studies.run(np.array([2 * FIDELITIES + WHOLE]))
    values = log_values(studies)[0, 3]
    assert values[TIMING] > LEAST_LOG_VALUE
    assert studies.expected_seconds()[0, 3, TIMING] == START_S
    free = plain_world().limits.copy()
    free[ACCURACY] = np.inf
    assert log_values(study(limits=free))[0, 1, TIMING] > LEAST_LOG_VALUE  # accuracy does not matter


def test_before_anything_is_eligible_the_lowest_mean_is_improved_upon() -> None:
    measured = plain_world().truth.copy()
    measured[MEMORY, 0] = 40.0
    studies = study(measured=measured)
    believed = studies.score(studies.beliefs.mean)[0]
    assert incumbent(studies)[0] == believed.min()
    assert incumbent(study())[0] == study().score(study().beliefs.mean)[0, 0]


def test_what_was_lucky_is_not_what_is_to_be_improved_upon() -> None:
    """The incumbent is believed, so a noisy measurement moves it by a part only."""
    measured = plain_world().truth.copy()
    measured[SPEED, 1] = -6.0
    covariance = plain_world().covariance.copy()
    covariance[SPEED] *= 0.01
    studies = study(measured=measured, covariance=covariance)
    studies.run(np.array([1 * FIDELITIES + WHOLE]))
    seen = studies.score(studies.known())[0, 1]
    assert incumbent(studies)[0] < seen - 1


def test_choices_are_allowed_or_stop() -> None:
    studies = study()
    values, allowed = log_values(studies), studies.allowed()
    values[0, 0] = 5.0  # of the default, which is measured
    action = int(choose(values, allowed)[0])
    candidate, fidelity = divmod(action, FIDELITIES)
    assert allowed[0, candidate, fidelity]
    assert values[0, candidate, fidelity] == np.where(allowed[0], values[0, :-1], -np.inf).max()
    assert choose(values, np.zeros_like(allowed))[0] == studies.stop
    values[0, -1] = 10.0
    assert choose(values, allowed)[0] == studies.stop


def test_the_baseline_finds_the_best_and_goes_on_while_it_can() -> None:
    studies = study()
    run_baseline(studies)
    assert studies.over.all()
    assert studies.objective()[0] == pytest.approx(studies.true_score()[0, 2])
    assert (studies.failed | (studies.trained == WHOLE)).all()
