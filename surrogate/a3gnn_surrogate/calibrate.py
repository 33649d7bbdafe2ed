"""Calibrations from measured seconds per stage and peaks of memory, by non-negative least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from a3gnn_surrogate.calibration import UNCALIBRATED, Calibration, Calibrations
from a3gnn_surrogate.columns import Array
from a3gnn_surrogate.measured_setting import MeasuredSetting
from a3gnn_surrogate.memory import memory_terms
from a3gnn_surrogate.stage_seconds import stage_seconds, train_terms
from a3gnn_surrogate.training_rows import HOST_BYTES

#: Weight of a factor's squared distance from its prior against a setting's mean squared relative error. It is enough to
#: settle terms that the rows can't tell apart. On 351 rows of six graphs, each graph left out in turn, 1e-6 to 3e-4 do
#: about as well, 1e-3 worse.
_PRIOR_WEIGHT = 1e-4
#: Solutions after the first one. Each measures errors relative to the geometric mean of the measurement and the
#: previous solution, as a logarithm does. Relative to the measurement alone, too small a prediction costs less than too
#: large a one.
_REPETITIONS = 3
#: Rows from which a setting's own calibration is fitted. It assumes a relative error of each row, and a relative
#: deviation of its factors from those of other settings. Guesses.
_MIN_OWN_ROWS = 4
_OWN_ROW_ERROR, _OWN_DEVIATION = 0.1, 0.3
#: The same deviation for a user's model, whose operations are counted but whose speed is unknown before its first row.
#: Guess: its factors lie within four times those of built-in models either way.
_USERS_DEVIATION = 3.0


class _MeasuredTerms(NamedTuple):
    """Terms of one stage's seconds or of memory, shape (n, n_terms), and what was measured of it, shape (n,)."""

    terms: Array
    total: Array


def general_calibrations(settings: Sequence[MeasuredSetting]) -> Calibrations:
    """Returns the calibrations that fit `settings` best, by kind of machine; all settings weigh the same.

    A kind without rows keeps the factors of the equations.
    """
    kinds = [[one for one in settings if one.setting.hardware.has_device == has_device] for has_device in (False, True)]
    host, device = (_fit(kind, UNCALIBRATED) for kind in kinds)
    return Calibrations(host, device)


def own_calibration(
    settings: Sequence[MeasuredSetting], general: Calibration, kept: NDArray[np.bool_] | None = None
) -> Calibration | None:
    """Returns the calibration of a setting by its own rows, or None if they are too few.

    It is the maximum a posteriori. Rows err by a tenth. Factors deviate from the general ones by three tenths, or by
    more for a user's model.

    Args:
        settings: The setting, once per probe of its machine.
        general: The calibration of other settings.
        kept: Which of its rows count, bool, shape (n,); all by default.
    """
    ends = np.cumsum([len(one) for one in settings])
    rows = np.ones(ends[-1], dtype=np.bool_) if kept is None else kept
    users = settings[0].setting.task.is_own
    if rows.sum() < (1 if users else _MIN_OWN_ROWS):
        return None
    deviation = _USERS_DEVIATION if users else _OWN_DEVIATION
    weight = (_OWN_ROW_ERROR / deviation) ** 2 / int(rows.sum())
    return _fit(settings, general, weight, np.split(rows, ends[:-1]))


def _fit(
    settings: Sequence[MeasuredSetting],
    prior: Calibration,
    weight: float = _PRIOR_WEIGHT,
    kept: Sequence[NDArray[np.bool_]] | None = None,
) -> Calibration:
    """Returns the factors for the `kept` rows of `settings`, all by default."""
    found: list[list[_MeasuredTerms]] = [[], [], [], []]
    for number, one in enumerate(settings):
        expected = stage_seconds(one.columns, *one.work, one.setting)
        train, memory = (
            train_terms(one.work.cost, one.setting.hardware),
            memory_terms(one.columns, *one.work, one.setting),
        )
        terms = expected.sample[:, None], expected.gather[:, None], train, memory
        totals = [*one.stages.T, np.exp(one.measured[:, HOST_BYTES])]
        for part, (own, total) in enumerate(zip(terms, totals, strict=True)):
            rows = total > 0  # NaN is not
            if kept is not None:
                rows &= kept[number]
            if rows.any():
                found[part].append(_MeasuredTerms(own[rows], total[rows]))
    sample = _factors(found[0], np.array([prior.sample]), weight)
    gather = _factors(found[1], np.array([prior.gather]), weight)
    trained = _factors(found[2], np.array(prior.train), weight)
    held = _factors(found[3], np.array(prior.memory), weight)
    return Calibration(tuple(trained.tolist()), float(sample[0]), float(gather[0]), tuple(held.tolist()))


def _factors(settings: Sequence[_MeasuredTerms], prior: Array, weight: float) -> Array:
    """Returns the factors >= 0 with which the terms of `settings` add up to their totals, shape (n_terms,).

    Args:
        settings: Terms and totals of the settings, which all weigh the same.
        prior: The factors without rows.
        weight: Weight of the squared distance from the prior, which is relative to the prior if that exceeds 1.
    """
    if not settings:
        return prior
    pull = np.sqrt(weight) * np.diag(1 / np.maximum(prior, 1.0))
    factors = prior
    for repetition in range(1 + _REPETITIONS):
        left, right = [pull], [pull @ prior]
        for terms, total in settings:
            scale = np.sqrt(total * np.maximum(terms @ factors, 1e-12)) if repetition else total
            scale = scale * np.sqrt(len(total))
            left.append(terms / scale[:, None])
            right.append(total / scale)
        factors = nnls(np.concatenate(left), np.concatenate(right))[0]
    return factors
