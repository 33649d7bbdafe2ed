"""Surrogates on disk: a manifest in JSON and boosters in UBJ. No pickles, so loading executes no code.

The manifest has the boosters' hashes, and a booster is read only if its hash matches. Otherwise xgboost would trust the
lengths in a damaged file, and take all memory or read past the file's end.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import xgboost

from a3gnn.errors import StoreError, UsageError
from a3gnn.version import __version__
from a3gnn_surrogate.calibration import Calibrations
from a3gnn_surrogate.features import FEATURE_NAMES, PLAIN_FEATURES
from a3gnn_surrogate.known_curves import KnownCurves
from a3gnn_surrogate.learner import THREADS, BoostedTrees, NoLearner, Regressor
from a3gnn_surrogate.posterior import VarianceComponents
from a3gnn_surrogate.residual import ResidualModel
from a3gnn_surrogate.scores import KindFactors
from a3gnn_surrogate.setting_corrections import SettingCorrections
from a3gnn_surrogate.training_rows import OUTPUTS

if TYPE_CHECKING:
    from a3gnn_surrogate.surrogate import Surrogate

    S = TypeVar("S", bound=Surrogate)

#: Goes up when the manifest, the features or the analytic model change.
SCHEMA_VERSION = 11
_FORMAT = "a3gnn-surrogate"
_MANIFEST = "manifest.json"
_REMEDY = "fit one and save it with Surrogate.save"
#: Fields of a `ResidualModel` that scale intervals.
SCALES = ("scale_unseen", "scale_default_known", "scale_beside_default")


def save(surrogate: Surrogate, folder: Path) -> Path:
    """Writes `surrogate` into `folder`, the manifest last, and returns the folder."""
    if surrogate.learner not in ("xgboost", "none"):
        raise UsageError(f"learner {surrogate.learner!r} is a baseline and can't be saved; xgboost and none can")
    outputs = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MANIFEST).unlink(missing_ok=True)
        for output, model in zip(OUTPUTS, surrogate.residual_models_, strict=True):
            outputs[output] = _model_fields(model)
            if isinstance(model.learner, BoostedTrees) and model.learner.booster is not None:
                content = model.learner.booster.save_raw("ubj")
                (folder / f"{output}.ubj").write_bytes(content)
                outputs[output]["hash"] = _hash(content)
        manifest = _manifest(surrogate) | {"channels": outputs}
        (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    except (OSError, xgboost.core.XGBoostError) as error:
        raise StoreError(f"the surrogate can't be written to {folder}: {error}") from error
    return folder


def load(cls: type[S], folder: Path) -> S:
    """Returns the surrogate in `folder` as an instance of `cls`."""
    manifest = _read_manifest(folder)
    try:
        surrogate = cls(**manifest["parameters"])
        surrogate.calibrations_ = Calibrations.from_dict(manifest["calibrations"])
        surrogate.residual_models_ = [
            _read_model(folder, output, manifest["channels"][output], surrogate.seed) for output in OUTPUTS
        ]
        surrogate.setting_corrections_ = SettingCorrections.from_dict(manifest["settings"])
        surrogate.known_curves_ = {key: KnownCurves.from_dict(found) for key, found in manifest["curves"].items()}
        surrogate.noise_ = dict(manifest["noise"])
        surrogate.reference_accuracies_ = dict(manifest["references"])
        surrogate.num_rows_ = int(manifest["num_rows"])
        surrogate.num_graphs_ = int(manifest["num_graphs"])
        surrogate.feature_names_ = tuple(manifest["feature_names"])
    except (OSError, KeyError, TypeError, ValueError) as error:  # XGBoostError is a ValueError
        raise StoreError(f"the surrogate in {folder} is damaged ({error!r}); {_REMEDY}") from error
    return surrogate


def _manifest(surrogate: Surrogate) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "schema_version": SCHEMA_VERSION,
        "versions": {"a3gnn": __version__, "xgboost": xgboost.__version__},
        "parameters": surrogate.get_params(),
        "feature_names": list(surrogate.feature_names_),
        "num_rows": surrogate.num_rows_,
        "num_graphs": surrogate.num_graphs_,
        "references": surrogate.reference_accuracies_,
        "settings": surrogate.setting_corrections_.to_dict(),
        "calibrations": surrogate.calibrations_.to_dict(),
        "curves": {key: found.to_dict() for key, found in surrogate.known_curves_.items()},
        "noise": dict(surrogate.noise_),
    }


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder} holds no surrogate: {_MANIFEST} can't be read ({error}); {_REMEDY}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise StoreError(f"{folder} holds no surrogate: {_MANIFEST} belongs to something else; {_REMEDY}")
    if manifest.get("schema_version") != SCHEMA_VERSION:
        raise StoreError(
            f"the surrogate in {folder} must have schema version {SCHEMA_VERSION}, "
            f"got {manifest.get('schema_version')!r}: it corrects another analytic model than this version's; {_REMEDY}"
        )
    if manifest.get("feature_names") not in (list(FEATURE_NAMES), list(PLAIN_FEATURES)):
        raise StoreError(f"the surrogate in {folder} was fitted to other columns than this version's; {_REMEDY}")
    return manifest


def _model_fields(model: ResidualModel) -> dict[str, Any]:
    """Returns the JSON fields of a model."""
    return {
        "intercept": model.intercept,
        **{name: getattr(model, name) for name in SCALES},
        "kinds": model.kinds._asdict(),
        "trees": model.learner.trees if isinstance(model.learner, BoostedTrees) else None,
        "variances": dataclasses.asdict(model.variances),
    }


def _read_model(folder: Path, output: str, fields: dict[str, Any], seed: int) -> ResidualModel:
    learner: Regressor = NoLearner()
    if fields["trees"] is not None:
        learner = BoostedTrees(seed, fields["trees"])
        if fields["trees"]:
            learner.booster = xgboost.Booster(model_file=_read_booster(folder / f"{output}.ubj", fields["hash"]))
            learner.booster.set_param(THREADS)  # files hold no number of threads
    variances = VarianceComponents(**fields["variances"])
    scales = {name: fields[name] for name in SCALES}
    return ResidualModel(learner, fields["intercept"], variances, **scales, kinds=KindFactors(**fields["kinds"]))


def _read_booster(file: Path, expected: str) -> bytearray:
    content = bytearray(file.read_bytes())
    if (found := _hash(content)) != expected:
        raise ValueError(f"{file.name} must have the hash {expected}, got {found}")
    return content


def _hash(content: bytearray) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
