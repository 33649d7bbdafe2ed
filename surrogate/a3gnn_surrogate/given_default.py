"""`given_default`: uses what is known of the default configuration before anything is measured."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.setting import Setting
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.local import LocalCorrection
from a3gnn_surrogate.points import knob_points, setting_key
from a3gnn_surrogate.setting_corrections import general_scales
from a3gnn_surrogate.training_rows import ACCURACY_DROP, EPOCHS, OUTPUTS, RELEVANT

if TYPE_CHECKING:
    from a3gnn_surrogate.surrogate import Surrogate

    S = TypeVar("S", bound=Surrogate)

#: Outputs that need no measurement: against itself the default loses nothing, and needs as many epochs.
_BY_DEFINITION = [ACCURACY_DROP, EPOCHS]


def given_default(surrogate: S, setting: Setting, *, as_predicted: bool = False) -> S:
    """Returns `surrogate` with a row of the default configuration in `setting`, which has none of its own.

    The accuracy drop and the epochs of other configurations then get the intervals of settings whose default is
    measured. If the setting has rows, these say more, and `surrogate` itself is returned. `surrogate` is not changed.

    Args:
        surrogate: A fitted surrogate.
        setting: The task, the graph and the machine.
        as_predicted: Whether the default's speed and memory count as measured too, at their predictions. Intervals are
            then those of results relative to the default's (`scores_beside_default`). They exclude errors that both
            share, and the noise of a trial of the default.

    Raises:
        NotFittedError: `surrogate` is not fitted.
    """
    key, columns = setting_key(setting), as_columns([TrainConfig()])
    centre, _ = surrogate.intervals(columns, setting)
    known = surrogate.setting_corrections_
    if key in known.corrections:
        return surrogate
    residuals = np.full((1, len(OUTPUTS)), 0.0 if as_predicted else np.nan)
    residuals[0, _BY_DEFINITION] = -centre[0, _BY_DEFINITION]
    variances = [model.variances for model in surrogate.residual_models_]  # the scales were found by these
    own = LocalCorrection.fit(knob_points(columns, setting), residuals, variances, RELEVANT)
    scales = dict(known.own_scales)
    if as_predicted:
        scales[key] = np.array([model.scale_beside_default for model in surrogate.residual_models_])
        scales[key][_BY_DEFINITION] = general_scales(own, surrogate.residual_models_)[_BY_DEFINITION]
    found = copy.copy(surrogate)
    found.setting_corrections_ = dataclasses.replace(
        known, corrections={**known.corrections, key: own}, own_scales=scales
    )
    return found
