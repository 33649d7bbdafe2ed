"""`Learned`: dynamic resource management by a network that was trained on simulated platforms."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import StoreError
from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.control.amounts import Bounds
from a3gnn.hybrid.control.moves import NUM_ACTIONS
from a3gnn.hybrid.control.situation import NUM_OBSERVED, Situation
from a3gnn.training.adapting.stage_times import StageTimes

#: Goes up when networks of before can't be used any more: with what is seen, or can be done.
_VERSION = 1
_FORMAT, _MANIFEST, _WEIGHTS = "a3gnn-management", "manifest.json", "weights.npz"


class Network:
    """A perceptron of two hidden layers of tanh, whose logits are added to what Algorithm 1 would do.

    Args:
        weights: float32, of torch's names: 0.weight, 0.bias, 2.weight, 2.bias, 4.weight, 4.bias.
        prior: Logit of what Algorithm 1 would do, the last `NUM_ACTIONS` values that are seen.
    """

    def __init__(self, weights: Mapping[str, NDArray[np.float32]], prior: float) -> None:
        self._layers = [(weights[f"{place}.weight"], weights[f"{place}.bias"]) for place in (0, 2, 4)]
        self._weights, self._prior = dict(weights), prior

    def logits(self, seen: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns those of the actions, float32, shape (NUM_ACTIONS,)."""
        value = seen
        for weight, bias in self._layers[:-1]:
            value = np.tanh(weight @ value + bias)
        weight, bias = self._layers[-1]
        found: NDArray[np.float32] = weight @ value + bias + self._prior * seen[-NUM_ACTIONS:]
        return found

    def save(self, folder: Path, training: Mapping[str, Any]) -> None:
        """Writes `weights.npz` and `manifest.json`, which tells of the `training`, into `folder`; no pickles."""
        manifest = {"format": _FORMAT, "version": _VERSION, "prior": self._prior, "training": dict(training)}
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / _WEIGHTS, **self._weights)  # type: ignore[arg-type]
        (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Returns the network that `save` wrote into `folder`.

        Raises:
            StoreError: `folder` holds none, or one of another version.
        """
        try:
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            kind = manifest.get("format"), manifest.get("version")
            if kind != (_FORMAT, _VERSION):
                raise StoreError(
                    f"the network in {folder} must be {_FORMAT} of version {_VERSION}, got {kind[0]} of version "
                    f"{kind[1]}; train one"
                )
            with np.load(folder / _WEIGHTS, allow_pickle=False) as file:
                weights = dict(file.items())
            made = cls(weights, float(manifest["prior"]))
            made.logits(np.zeros(NUM_OBSERVED, dtype=np.float32))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
            raise StoreError(
                f"{folder} holds no network of management that can be read ({error}); train one"
            ) from error
        return made


class Learned:
    """A `Controller` that takes the action of the network's largest logit, each time that it is asked.

    Args:
        bounds: Of shares.
        network: As trained.
    """

    def __init__(self, bounds: Bounds, network: Network) -> None:
        self._situation, self._network = Situation(bounds), network

    def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
        """Returns the division after one action of the network."""
        seen = self._situation.see(assignment, times)
        return self._situation.act(int(self._network.logits(seen).argmax()))
