"""The policy: proposes configurations for a context and weights without evaluating any."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.distributions import MultiCategoricalDistribution
from stable_baselines3.common.policies import ActorCriticPolicy

from a3gnn.errors import UsageError
from a3gnn.seeding import generator
from a3gnn.space import SearchSpace
from a3gnn_envs.context import Context
from a3gnn_envs.episodes import PREFERENCE_CONCENTRATION

#: Layers of the actor and of the critic. Guess.
NET_ARCH = [192, 192]
#: Increases when saved policies of older versions can't be read any more.
POLICY_VERSION = 1


@dataclass(frozen=True, slots=True)
class FeatureScaler:
    """Z-scores the features of contexts.

    Attributes:
        mean: float32, shape (n_features,).
        deviation: float32, same shape; 1 for features that are equal in all contexts.
    """

    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]

    @classmethod
    def fit(cls, contexts: list[Context]) -> Self:
        """Returns the scaler after which the features of `contexts` have mean 0 and standard deviation 1."""
        features = np.stack([context.features for context in contexts]).astype(np.float32)
        deviation = features.std(axis=0)
        return cls(features.mean(axis=0), np.where(deviation > 1e-6, deviation, 1).astype(np.float32))

    def transform(self, context: Context) -> Context:
        """Returns `context` with z-scored features."""
        return dataclasses.replace(context, features=(context.features - self.mean) / self.deviation)


@dataclass(frozen=True, slots=True)
class Policy:
    """A trained actor-critic network, and the space and features that it was trained for.

    Attributes:
        network: stable-baselines3's policy, on the CPU.
        names: Names of the knobs.
        nvec: The number of values of each knob, int64, shape (n_knobs,).
        scaler: Z-scores features.
        evaluations: Predictions that its training took, repeated ones included.
        seed: The seed of its training.
    """

    network: ActorCriticPolicy
    names: tuple[str, ...]
    nvec: NDArray[np.int64]
    scaler: FeatureScaler
    evaluations: int
    seed: int

    def matches(self, space: SearchSpace, features: NDArray[np.float32]) -> bool:
        """Returns whether `space` has the knobs and sizes, and `features` the length, that it was trained for."""
        return (
            self.names == space.names
            and np.array_equal(self.nvec, space.nvec)
            and self.scaler.mean.shape == features.shape
        )

    def propose(self, context: Context, count: int, seed: int) -> NDArray[np.int64]:
        """Returns `count` canonical rows, each sampled for newly drawn weights, int64, shape (count, n_knobs).

        Raises:
            UsageError: The context does not match; see `matches`.
        """
        if not self.matches(context.space, context.features):
            raise UsageError(
                f"this policy proposes knobs {self.names} of sizes {self.nvec.tolist()} from {len(self.scaler.mean)} "
                f"features, got {context.space.names}, {context.space.nvec.tolist()} and {len(context.features)}; "
                "train one for this space"
            )
        random = generator(seed, "policy.propose")
        weights = random.dirichlet(np.full(3, PREFERENCE_CONCENTRATION), size=count)
        observed = np.tile(self.scaler.transform(context).observation, (count, 1))
        with torch.no_grad():
            inputs = torch.from_numpy(np.hstack([observed, weights.astype(np.float32)]))
            actor = self.network.get_distribution(inputs)
        assert isinstance(actor, MultiCategoricalDistribution)
        logits = [knob.logits.numpy() for knob in actor.distribution]
        rows = [np.argmax(knob + random.gumbel(size=knob.shape), axis=1) for knob in logits]  # the Gumbel-max trick
        return context.space.canonical(np.stack(rows, axis=1).astype(np.int64))

    def save(self, folder: str | Path) -> None:
        """Writes `weights.npz` and `manifest.json` into `folder`; neither holds a pickle."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {name: tensor.numpy() for name, tensor in self.network.state_dict().items()}
        np.savez(folder / "weights.npz", **arrays, mean=self.scaler.mean, deviation=self.scaler.deviation)
        manifest = {
            "policy_version": POLICY_VERSION,
            "knobs": list(self.names),
            "nvec": self.nvec.tolist(),
            "observation_size": len(self.scaler.mean) + 5,
            "net_arch": NET_ARCH,
            "evaluations": self.evaluations,
            "seed": self.seed,
            "versions": {"stable_baselines3": stable_baselines3.__version__, "torch": torch.__version__},
        }
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Returns the policy that `save` wrote.

        Raises:
            UsageError: The folder holds no policy, or one of another version.
        """
        folder = Path(folder)
        try:
            manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            with open(folder / "weights.npz", "rb") as file, np.load(file, allow_pickle=False) as weights:
                arrays = dict(weights)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise UsageError(f"{folder} holds no policy that can be read ({error}); train a new one") from error
        if manifest.get("policy_version") != POLICY_VERSION or manifest.get("net_arch") != NET_ARCH:
            raise UsageError(
                f"{folder} holds a policy of version {manifest.get('policy_version')} and layers "
                f"{manifest.get('net_arch')}, this a3gnn reads {POLICY_VERSION} and {NET_ARCH}; train a new one"
            )
        scaler = FeatureScaler(arrays.pop("mean"), arrays.pop("deviation"))
        nvec = np.array(manifest["nvec"], dtype=np.int64)
        observation = spaces.Box(-np.inf, np.inf, (manifest["observation_size"],), np.float32)
        network = ActorCriticPolicy(observation, spaces.MultiDiscrete(nvec), lambda _: 0.0, net_arch=NET_ARCH)
        network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        network.set_training_mode(False)
        return cls(network, tuple(manifest["knobs"]), nvec, scaler, manifest["evaluations"], manifest["seed"])
