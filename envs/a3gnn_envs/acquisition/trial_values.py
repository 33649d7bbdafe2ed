"""Values of trials: the baseline that every other rule is compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn_envs.acquisition.studies import FIDELITIES, QUARTER, SHARES, TIMING, Studies
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, SPEED, WORK, Floats
from a3gnn_envs.normal import gain_per_second, probability_at_most

#: Least logarithm of a value, far below the price: a trial of so little value is not worth it.
LEAST_LOG_VALUE = -20.0
#: Log value of stopping relative to the best trial. On measured grids, a rule that stopped when a trial promised less
#: than its price was worse than one that went on, because beliefs are surer than they should be
#: (docs/design/acquisition.md).
#: At this distance, a policy that starts from the baseline tries stopping now and then. Guess.
_STOPPING = -1.5
#: log2 of the shares of a curve; a share of 0 is replaced by a tiny one.
_LOG_SHARES = np.log2(np.maximum(SHARES, 1e-9))


def log_values(studies: Studies) -> NDArray[np.float32]:
    """Returns the log values of all trials and of stopping, float32, shape (num_studies, K + 1, 3).

    The value of a trial is the expected improvement times the probability of feasibility per share of the budget that
    it is predicted to take (`gain_per_second`). Both use what would be known after the trial: with a quarter of the
    curve, the accuracy reached by then. Without a curve, the value is 0 if accuracy matters. The improvement is over
    the best eligible candidate as believed after all measurements, or over the lowest believed score before there is
    one. Stopping, the first entry of the last row, is worth less than the best allowed trial.
    """
    share = studies.expected_seconds() / studies.world.budget_s[:, None, None]
    best = incumbent(studies)[:, None]
    values = []
    for fidelity in range(FIDELITIES):
        probability = feasibility_after(studies, fidelity)
        values.append(gain_per_second(*score_after(studies, fidelity), best, probability, share[..., fidelity]))
    logs = np.log(np.maximum(np.stack(values, axis=-1), np.exp(LEAST_LOG_VALUE)))
    best_log = np.where(studies.allowed(), logs, LEAST_LOG_VALUE).max(axis=(1, 2))
    stopping = np.broadcast_to((best_log + _STOPPING)[:, None, None], (len(logs), 1, FIDELITIES))
    return np.concatenate([logs, stopping], axis=1).astype(np.float32)


def choose(log_values: NDArray[np.float32], allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the actions of the largest values among the allowed trials and stopping, int64, shape (num_studies,).

    Args:
        log_values: As the function of that name returns them, float32, shape (num_studies, K + 1, 3).
        allowed: As `Studies.allowed` returns it, bool, shape (num_studies, K, 3).
    """
    num, rows, _ = log_values.shape
    flat = log_values.reshape(num, -1)[:, : (rows - 1) * FIDELITIES + 1]
    open_ = np.concatenate([allowed.reshape(num, -1), np.ones((num, 1), dtype=np.bool_)], axis=1)
    return np.asarray(np.where(open_, flat, -np.inf).argmax(axis=1))


def run_baseline(studies: Studies) -> None:
    """Runs `studies` to their ends by the values of trials."""
    while not studies.over.all():
        studies.run(choose(log_values(studies), studies.allowed()))


def incumbent(studies: Studies) -> Floats:
    """Returns the score to improve upon, without noise, in doublings, float64, shape (num_studies,)."""
    believed, eligible = studies.score(studies.beliefs.mean), studies.eligible()
    lowest = np.where(studies.world.present, believed, np.inf).min(axis=1)
    best = np.where(eligible, believed, -np.inf).max(axis=1)
    return np.asarray(np.where(eligible.any(axis=1), best, lowest))


def score_after(studies: Studies, fidelity: int) -> tuple[Floats, Floats]:
    """Returns mean and standard deviation of the scores that are known after trials, float64, (num_studies, K) each.

    How far curves rise is uncertain too, but that is left out: no curve falls, so it is no chance of more.
    """
    world, beliefs = studies.world, studies.beliefs
    mean = beliefs.mean.copy()
    mean[:, ACCURACY] += _rise_left(studies, fidelity)
    deviation = np.sqrt((world.weights[..., None] ** 2 * beliefs.variance).sum(axis=1))
    return studies.score(mean), deviation


def feasibility_after(studies: Studies, fidelity: int) -> Floats:
    """Returns the probability that all limits are known to be kept after trials, float64, shape (num_studies, K)."""
    in_memory, accurate = memory_feasibility(studies), accuracy_feasibility(studies, fidelity)
    weights, limits = studies.world.weights, studies.world.limits
    matters = np.isfinite(limits[:, ACCURACY]) | (weights[:, [ACCURACY, WORK]] > 0).any(axis=1)
    untrained = _known_after(studies, fidelity) == TIMING
    return np.where(untrained & matters[:, None], 0.0, in_memory * accurate)


def memory_feasibility(studies: Studies) -> Floats:
    """Returns the probability of keeping the limit on memory as measured, float64, shape (num_studies, K).

    It is 1 for candidates with a successful trial.
    """
    return np.where(studies.timed, 1.0, _at_most(studies, MEMORY))


def accuracy_feasibility(studies: Studies, fidelity: int) -> Floats:
    """Returns the probability of keeping the limit on accuracy as known after trials, (num_studies, K).

    Beliefs about accuracy and about the seconds to the target each give a probability. Their geometric mean counts, as
    in a tune (`a3gnn.tuning.engines.propose.feasibility`).
    """
    world, beliefs = studies.world, studies.beliefs
    by_accuracy = _at_most(studies, ACCURACY, _rise_left(studies, fidelity))
    mean = beliefs.mean[:, SPEED] + beliefs.mean[:, WORK]
    deviation = np.sqrt(beliefs.variance[:, SPEED] + beliefs.variance[:, WORK])
    share = _LOG_SHARES[_known_after(studies, fidelity)]
    limited = np.isfinite(world.limits[:, ACCURACY, None])
    return np.where(limited, np.sqrt(by_accuracy * probability_at_most(share, mean, deviation)), by_accuracy)


def _rise_left(studies: Studies, fidelity: int) -> Floats:
    """Returns the gain that is still believed of a curve after trials, float64, shape (num_studies, K)."""
    return np.where(_known_after(studies, fidelity) == QUARTER, studies.world.rise[:, None], 0.0)


def _known_after(studies: Studies, fidelity: int) -> NDArray[np.int64]:
    """Returns the fidelity to which curves are known after trials, int64, shape (num_studies, K)."""
    return np.asarray(np.maximum(studies.trained, fidelity))


def _at_most(studies: Studies, cost: int, rise: Floats | float = 0.0) -> Floats:
    """Returns the probability that a measured cost keeps its limit, float64, shape (num_studies, K)."""
    world, beliefs = studies.world, studies.beliefs
    deviation = np.sqrt(beliefs.variance[:, cost] + world.noise[:, cost, None] ** 2)
    mean = beliefs.mean[:, cost] + rise
    bound = world.limits[:, cost, None]
    finite = np.where(np.isfinite(bound), bound, 0.0)
    return np.where(np.isfinite(bound), probability_at_most(finite, mean, deviation), 1.0)
