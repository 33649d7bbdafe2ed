"""Reads manifests of schema version 1 as if version 2 had written them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from a3gnn_surrogate.calibration import Calibrations
from a3gnn_surrogate.posterior import VarianceComponents
from a3gnn_surrogate.residual import prior_model, scales
from a3gnn_surrogate.training_rows import OUTPUTS

#: The outputs of version 1; it knew nothing of the epochs to the target.
_OUTPUTS_1 = OUTPUTS[:-1]


def from_version_1(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of version 2.

    The analytic model was not calibrated. A setting had one half-width: it becomes that of a configuration that has
    nothing in common with the setting's rows.
    """
    coverage, settings = manifest["parameters"]["coverage"], manifest["settings"]
    channels = {output: _channel(manifest["channels"][output]) for output in _OUTPUTS_1}
    channels[OUTPUTS[-1]] = _prior(OUTPUTS[-1], coverage)
    variances = [VarianceComponents(**channels[output]["variances"]) for output in OUTPUTS]
    corrections = {key: _correction(found, variances) for key, found in settings["corrections"].items()}
    own = {key: _own_scales(widths, variances, coverage) for key, widths in settings["own_widths"].items()}
    return {
        **manifest,
        "channels": channels,
        "settings": {"corrections": corrections, "own_scales": own},
        "calibrations": Calibrations().to_dict(),
        "curves": {},
        "noise": {},
    }


def _channel(fields: Mapping[str, Any]) -> dict[str, Any]:
    named = fields["variances"]
    variances = VarianceComponents(named["level"], named["shape"], named["noise"])
    found = scales(variances, fields["cold"], fields["warm"])
    return {
        "intercept": fields["level"],
        "scale_unseen": found.unseen,
        "scale_default_known": found.default_known,
        "whole_factor": 1.0,
        "parts_factor": 1.0,
        "trees": fields["trees"],
        "variances": dataclasses.asdict(variances),
    }


def _prior(output: str, coverage: float) -> dict[str, Any]:
    model = prior_model(output, coverage)
    return {
        "intercept": model.intercept,
        "scale_unseen": model.scale_unseen,
        "scale_default_known": model.scale_default_known,
        "whole_factor": model.whole_factor,
        "parts_factor": model.parts_factor,
        "trees": None,
        "variances": dataclasses.asdict(model.variances),
    }


def _correction(fields: Mapping[str, Any], variances: Sequence[VarianceComponents]) -> dict[str, Any]:
    """Returns a correction with a column for the new output, which no row has."""
    weights = np.array(fields["weights"], dtype=np.float64)
    weights = np.concatenate([weights, np.zeros((len(weights), 1))], axis=1)
    return {
        "points": fields["points"],
        "constant": [*fields["constant"], 0.0],
        "weights": weights.tolist(),
        "known": (weights != 0).tolist(),  # a row without an output had weight 0
        "variances": [dataclasses.asdict(one) for one in variances],
    }


def _own_scales(widths: Sequence[float], variances: Sequence[VarianceComponents], coverage: float) -> list[float]:
    old = [scales(one, width, width).default_known for one, width in zip(variances, widths, strict=False)]
    return [*old, prior_model(OUTPUTS[-1], coverage).scale_unseen]
