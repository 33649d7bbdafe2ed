"""`Scorer`: a learned acquisition, one small network for all candidates that adds to the baseline's log values."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from a3gnn.errors import StoreError
from a3gnn.version import __version__
from a3gnn_envs.acquisition.observation import ALLOWED, FEATURE_COLUMNS, FEATURES, VALUES
from a3gnn_envs.acquisition.studies import FIDELITIES

#: Units of both hidden layers (pre-study: as good as larger ones).
_HIDDEN = 48
#: Logits per unit of log value. At 1, trials would be drawn in proportion to their values, and most draws would be of
#: the many with little value. Guess.
SHARPNESS = 4.0
#: Logit of actions that are not allowed.
_NEVER = -1e8
#: Goes up when older stored networks can't be read any more.
_VERSION = 1
_FORMAT, _MANIFEST, _WEIGHTS = "a3gnn-acquisition", "manifest.json", "weights.npz"


class Scorer(nn.Module):
    """Scores each row of an observation by itself, so that it takes any number of candidates in any order.

    The last layer is zero at first, so an untrained scorer adds nothing: it is the baseline.
    """

    def __init__(self) -> None:
        super().__init__()
        last = nn.Linear(_HIDDEN, FIDELITIES)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(
            nn.Linear(len(FEATURES), _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, _HIDDEN), nn.Tanh(), last
        )

    def forward(self, observed: torch.Tensor) -> torch.Tensor:
        """Returns the logits of the actions, float32, shape (n, 3 * num_candidates + 1).

        Args:
            observed: Observations of `AcquisitionEnv`, float32, shape (n, num_candidates + 1, NUM_COLUMNS). It ignores
                the truth in them.
        """
        logits = SHARPNESS * observed[..., VALUES] + self.layers(observed[..., FEATURE_COLUMNS])
        logits = logits.masked_fill(observed[..., ALLOWED] < 0.5, _NEVER)
        actions = (observed.shape[1] - 1) * FIDELITIES + 1
        found: torch.Tensor = logits.flatten(start_dim=1)[:, :actions]
        return found

    @torch.no_grad()
    def choose(self, observed: NDArray[np.float32]) -> NDArray[np.int64]:
        """Returns the actions of the largest logits, int64, shape (n,)."""
        found: NDArray[np.int64] = self(torch.from_numpy(observed)).argmax(dim=1).numpy()
        return found

    def save(self, folder: str | Path, training: dict[str, Any]) -> None:
        """Writes `weights.npz` and `manifest.json`, which contains `training`, into `folder`; no pickles.

        Raises:
            StoreError: The folder can't be written.
        """
        folder = Path(folder)
        manifest = {"format": _FORMAT, "version": _VERSION, "features": list(FEATURES), "training": training}
        manifest["versions"] = {"a3gnn": __version__, "torch": torch.__version__}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _MANIFEST).unlink(missing_ok=True)
            np.savez(folder / _WEIGHTS, **{name: one.numpy() for name, one in self.state_dict().items()})
            (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"the acquisition can't be written to {folder}: {error}") from error

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Returns the scorer that `save` wrote into `folder`.

        Raises:
            StoreError: `folder` has no scorer, or one of another version or with other features.
        """
        folder = Path(folder)
        try:
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            found = {name: manifest.get(name) for name in ("format", "version", "features")}
            with np.load(folder / _WEIGHTS, allow_pickle=False) as file:
                weights = {name: torch.from_numpy(array) for name, array in file.items()}
        except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
            raise StoreError(f"{folder} holds no acquisition that can be read ({error}); train one") from error
        if found != {"format": _FORMAT, "version": _VERSION, "features": list(FEATURES)}:
            raise StoreError(
                f"the acquisition in {folder} must be of version {_VERSION} and of this version's {len(FEATURES)} "
                f"features, got {found}; train one"
            )
        scorer = cls()
        try:
            scorer.load_state_dict(weights)
        except RuntimeError as error:
            raise StoreError(f"the acquisition in {folder} is damaged ({error}); train one") from error
        return scorer
