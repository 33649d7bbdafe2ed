"""What trials find and take at each fidelity, and what a play-off makes of it, in a world known by heart."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

from a3gnn.errors import UsageError
from a3gnn.objectives import Priority
from a3gnn_envs.acquisition.simulated import SimulatedWorlds
from a3gnn_envs.acquisition.studies import FIDELITIES, PRICE, QUARTER, TIMING, WHOLE, Studies
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, SPEED, WORK, World, score_weights
from tests.envs.acquisition.worlds import BUDGET_S, CURVE_S, START_S, plain_world

SPEED_WEIGHT = 0.9


def study(**changes: Any) -> Studies:
    return Studies(World.stack([plain_world(**changes)], num_candidates=4))


def trial(studies: Studies, candidate: int, fidelity: int) -> float:
    """Makes a trial and returns the seconds that it took."""
    before = studies.spent_s[0]
    studies.run(np.array([candidate * FIDELITIES + fidelity]))
    return float(studies.spent_s[0] - before)


def test_a_study_begins_with_the_default_measured() -> None:
    studies = study()
    assert studies.timed[0].tolist() == [True, False, False, False]
    assert studies.trained[0].tolist() == [WHOLE, TIMING, TIMING, TIMING]
    assert studies.spent_s[0] == 0
    assert studies.eligible()[0].tolist() == [True, False, False, False]
    assert studies.beliefs.mean[0, SPEED, 0] == pytest.approx(0.0, abs=1e-6)
    assert not studies.allowed()[0, 0].any()


def test_a_trial_takes_what_its_fidelity_trains_and_no_part_of_a_curve_twice() -> None:
    studies = study()
    assert trial(studies, 1, TIMING) == START_S
    assert trial(studies, 1, QUARTER) == START_S + CURVE_S / 4
    assert trial(studies, 1, WHOLE) == START_S + CURVE_S * 3 / 4
    assert not studies.allowed()[0, 1].any()
    whole = study()
    assert trial(whole, 1, WHOLE) == START_S + CURVE_S


def test_only_what_is_trained_far_enough_is_eligible() -> None:
    studies = study()
    trial(studies, 1, TIMING)
    trial(studies, 1, QUARTER)  # -0.85 is short of -0.89
    assert not studies.eligible()[0, 1]
    trial(studies, 1, WHOLE)
    assert studies.eligible()[0, 1]
    early = study(early=np.full(4, -0.895))
    trial(early, 1, QUARTER)
    assert early.eligible()[0, 1]


def test_a_quarter_tells_of_the_whole_what_is_left_of_the_rise() -> None:
    studies = study()
    before = studies.beliefs.variance[0, ACCURACY, 1]
    trial(studies, 1, QUARTER)
    expected = -0.85 - 0.04
    noise = 0.01**2 + 1e-6
    gain = before / (before + noise)
    assert studies.beliefs.mean[0, ACCURACY, 1] == pytest.approx(-0.9 + gain * (expected + 0.9))
    trial(studies, 1, WHOLE)
    assert studies.beliefs.mean[0, ACCURACY, 1] == pytest.approx(-0.9, abs=1e-3)


def test_the_seconds_to_the_target_are_known_where_it_was_reached_and_else_at_least_what_was_trained() -> None:
    """SPEED is -1, so that after a quarter of the curve WORK is above log2(1 / 4) + 1, and after all of it above 1."""
    studies = study()
    before = studies.beliefs.mean[0, WORK, 1]
    trial(studies, 1, QUARTER)
    expected = stats.truncnorm((-1.0 - before) / 0.5, np.inf, loc=before, scale=0.5).mean()
    assert studies.beliefs.mean[0, WORK, 1] == pytest.approx(expected)
    trial(studies, 1, WHOLE)
    assert studies.beliefs.mean[0, WORK, 1] == pytest.approx(0.0, abs=1e-4)
    missed = plain_world().truth.copy()
    missed[ACCURACY, 1] = -0.8
    failed = study(measured=missed)
    trial(failed, 1, WHOLE)
    assert failed.beliefs.mean[0, WORK, 1] > 1.0
    assert not failed.eligible()[0, 1]


def test_candidates_of_one_key_share_a_curve() -> None:
    roomy = plain_world().limits.copy()
    roomy[MEMORY] = np.inf
    studies = study(limits=roomy)
    trial(studies, 2, WHOLE)
    assert studies.trained[0].tolist() == [WHOLE, TIMING, WHOLE, WHOLE]
    assert studies.allowed()[0, 3].tolist() == [True, False, False]
    assert trial(studies, 3, TIMING) == START_S
    assert studies.eligible()[0, 3]


def test_a_curve_ends_at_the_target_where_accuracy_is_a_limit_alone() -> None:
    """SPEED + WORK is log2 of the share of the curve at which that is."""
    truth = plain_world().truth.copy()
    truth[WORK] = [-1.0, -2.0, 1.0, 1.0]  # the shares are 1/2, 1/8 and 1/2
    changes: dict[str, Any] = {"measured": truth, "mean": truth, "ends_at_target": np.asarray(True)}
    studies = study(**changes)
    assert trial(studies, 1, WHOLE) == pytest.approx(START_S + CURVE_S / 8)
    assert trial(studies, 2, WHOLE) == pytest.approx(START_S + CURVE_S / 2)
    assert study(**changes).expected_seconds()[0, 1, WHOLE] == pytest.approx(START_S + CURVE_S / 8)
    missed = truth.copy()
    missed[ACCURACY, 1] = -0.7
    short = study(**{**changes, "measured": missed})
    assert trial(short, 1, WHOLE) == START_S + CURVE_S


def test_a_quarter_that_reaches_the_target_needs_no_more() -> None:
    studies = study(early=np.full(4, -0.895), ends_at_target=np.asarray(True))
    trial(studies, 1, QUARTER)
    assert studies.trained[0, 1] == WHOLE
    assert not studies.allowed()[0, 1].any()


def test_a_trial_that_is_killed_tells_that_it_takes_more() -> None:
    studies = study()
    assert trial(studies, 3, WHOLE) == START_S
    assert studies.failed[0].tolist() == [False, False, False, True]
    assert studies.beliefs.mean[0, MEMORY, 3] > 32.0
    assert not studies.allowed()[0, 3].any()
    assert not studies.eligible()[0, 3]


def test_a_crash_takes_a_start_and_tells_nothing() -> None:
    studies = study(crashes=np.array([False, True, False, False]))
    mean = studies.beliefs.mean.copy()
    assert trial(studies, 1, WHOLE) == START_S
    assert studies.failed[0, 1]
    np.testing.assert_array_equal(studies.beliefs.mean, mean)


def test_what_is_not_allowed_takes_a_start_and_finds_nothing() -> None:
    studies = study()
    mean = studies.beliefs.mean.copy()
    assert trial(studies, 0, TIMING) == START_S
    np.testing.assert_array_equal(studies.beliefs.mean, mean)
    assert not studies.failed.any()


def test_a_study_ends_when_it_stops_or_can_afford_nothing() -> None:
    studies = study()
    studies.run(np.array([studies.stop]))
    assert studies.over[0]
    assert not studies.allowed().any()
    assert trial(studies, 1, WHOLE) == 0
    poor = study(budget_s=np.asarray(START_S + CURVE_S + 0.5))
    assert poor.allowed()[0, 1].all()
    trial(poor, 1, WHOLE)
    assert poor.over[0]
    assert study(budget_s=np.asarray(START_S / 2)).over[0]


def test_the_objective_is_the_true_score_of_what_the_play_off_chooses() -> None:
    world = plain_world()
    measured, again = world.measured.copy(), world.play_off.copy()
    measured[SPEED, 1] = -5.0  # was lucky
    again[SPEED, 1], again[SPEED, 2] = -1.0, -2.0
    studies = study(measured=measured, play_off=again)
    trial(studies, 1, WHOLE)
    assert studies.objective()[0] == pytest.approx(studies.true_score()[0, 1])
    trial(studies, 2, WHOLE)
    assert studies.objective()[0] == pytest.approx(studies.true_score()[0, 2])
    gained = studies.objective()[0] - studies.true_score()[0, 0]
    assert gained == pytest.approx(SPEED_WEIGHT * 2 - 0.05 * 0.5)
    assert studies.utility()[0] == pytest.approx(studies.objective()[0] - PRICE * studies.spent_s[0] / BUDGET_S)


def test_what_truly_breaks_a_limit_is_not_chosen() -> None:
    truth = plain_world().truth.copy()
    truth[MEMORY, 1] = 32.5
    studies = study(truth=truth)
    trial(studies, 1, WHOLE)
    assert studies.eligible()[0, 1]
    assert studies.objective()[0] == pytest.approx(studies.true_score()[0, 0])


def test_where_nothing_is_eligible_the_objective_is_the_worst_that_would_be() -> None:
    measured = plain_world().truth.copy()
    measured[MEMORY, 0] = 40.0
    studies = study(measured=measured, truth=measured)
    assert not studies.eligible().any()
    assert studies.objective()[0] == pytest.approx(studies.true_score()[0, 1])  # the slower of the two that would


def test_seconds_to_the_target_are_speed_and_work() -> None:
    weights = score_weights(Priority.parse("time"))
    assert weights.tolist() == pytest.approx([0.9, 0.05, 0.0, 0.9])
    studies = study(weights=weights)
    assert not np.isfinite(studies.score(studies.known())[0, 1])
    trial(studies, 1, TIMING)
    assert not studies.eligible()[0, 1]
    trial(studies, 1, WHOLE)
    assert studies.eligible()[0, 1]


def test_weights_are_those_of_the_priority() -> None:
    for name in ("throughput", "memory", "accuracy", "balanced"):
        priority = Priority.parse(name)
        costs = np.random.default_rng(0).standard_normal((5, 4))
        expected = priority.score(costs[:, :3])
        without = costs.copy()
        if not priority.accuracy_counts:  # a limit alone: above it, it counts for nothing
            expected = priority.score(costs[:, :3] * [1.0, 1.0, 0.0])
        np.testing.assert_allclose(-(without * score_weights(priority)).sum(axis=1), expected)


def test_worlds_are_filled_up_and_no_more_fit_than_there_is_room(worlds: SimulatedWorlds) -> None:
    random = np.random.default_rng(0)
    drawn = [worlds.draw(random) for _ in range(2)]
    stacked = World.stack(drawn, num_candidates=20)
    assert stacked.present.sum(axis=1).tolist() == [12, 12]
    studies, exact = Studies(stacked), Studies(World.stack(drawn, num_candidates=12))
    np.testing.assert_array_equal(studies.allowed()[:, :12], exact.allowed())
    assert not studies.allowed()[:, 12:].any()
    np.testing.assert_allclose(studies.objective(), exact.objective())
    with pytest.raises(UsageError, match="at most 4"):
        World.stack(drawn, num_candidates=4)


def test_others_take_the_place_of_studies(worlds: SimulatedWorlds) -> None:
    random = np.random.default_rng(1)
    drawn = [worlds.draw(random) for _ in range(3)]
    studies = Studies(World.stack(drawn, 12))
    studies.run(np.array([3 * FIDELITIES, 4 * FIDELITIES, studies.stop]))
    studies.replace(np.array([2]), Studies(World.stack(drawn[:1], 12)))
    fresh = Studies(World.stack([drawn[0]], 12))
    assert not studies.over[2]
    np.testing.assert_array_equal(studies.beliefs.mean[2], fresh.beliefs.mean[0])
    for field in dataclasses.fields(World):
        np.testing.assert_array_equal(getattr(studies.world, field.name)[2], getattr(drawn[0], field.name))
