"""The shipped policy: proposes configurations for a setting and a goal, without torch.

Its weights are arrays in `policy.npz`, trained by `make policy` (`benchmarks/policy_training.py`).
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import StoreError
from a3gnn.objectives import Objectives
from a3gnn.seeding import generator
from a3gnn.setting import Setting
from a3gnn.space import Rows, SearchSpace
from a3gnn_envs.choices import MOST_SLOTS, NUM_KNOBS, NUM_SLOTS, SIGNATURE, STARTS, Choices, slots_of
from a3gnn_envs.observation import Levels, Scale, goal_of, setting_features

#: Goes up when the observation or the network change.
SCHEMA_VERSION = 1
#: The weights that ship.
SHIPPED = Path(__file__).with_name("policy.npz")
_REMEDY = "train one with `make policy`"
#: Layers of the network.
LAYERS = 3
#: Rounds of drawing more rows where several rows have the same choices. Guess.
_ROUNDS = 8
Layer = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Policy:
    """A trained network: it gives a logit for every value of every knob."""

    layers: tuple[Layer, ...]  # weights (n_inputs, n_outputs) and biases (n_outputs,) of each layer, float32
    scale: Scale  # scales the numbers of settings

    def save(self, path: Path) -> Path:
        """Writes the policy to `path` (.npz) and returns it."""
        arrays: dict[str, Any] = {
            f"{name}{i}": one for i, layer in enumerate(self.layers) for name, one in zip("wb", layer, strict=True)
        }
        arrays |= {"version": np.array(SCHEMA_VERSION), "knobs": np.array(SIGNATURE)}
        arrays |= {"mean": self.scale.mean, "deviation": self.scale.deviation}
        np.savez_compressed(path, **arrays)
        return path

    @classmethod
    def load(cls, path: Path = SHIPPED) -> Self:
        """Returns the policy in `path`, by default the one that ships.

        Raises:
            StoreError: There is none, it is damaged, or it is for other knobs than this version's.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                found = dict(file)
            version, knobs = int(found["version"]), found["knobs"].tolist()
            if version != SCHEMA_VERSION:
                raise StoreError(f"the policy in {path} must have version {SCHEMA_VERSION}, got {version}; {_REMEDY}")
            if (differing := set(knobs) ^ set(SIGNATURE)) or knobs != list(SIGNATURE):
                names = ", ".join(sorted({one.partition(" ")[0] for one in differing})) or "their order"
                raise StoreError(f"the policy in {path} was trained on other knobs ({names} changed); {_REMEDY}")
            layers = tuple((found[f"w{i}"], found[f"b{i}"]) for i in range(LAYERS))
            return cls(layers, Scale(found["mean"], found["deviation"]))
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise StoreError(f"{path} holds no policy ({error!r}); {_REMEDY}") from error

    def logits(self, observed: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the logits of all slots, before masks, float32, shape (n, n_slots).

        Args:
            observed: Observations of `ConfigureEnv`, float32, shape (n, n_numbers).
        """
        hidden = observed[:, :-MOST_SLOTS]
        for weights, biases in self.layers[:-1]:
            hidden = np.maximum(hidden @ weights + biases, 0)
        weights, biases = self.layers[-1]
        return np.asarray(hidden @ weights + biases)

    def propose(
        self,
        setting: Setting,
        space: SearchSpace,
        objectives: Objectives,
        levels: Levels,
        count: int,
        seed: int,
        *,
        doubt: float = 0.5,
    ) -> Rows:
        """Returns up to `count` distinct canonical rows of `space`, int64, shape (n, n_knobs), n > 0.

        The first takes the likeliest value of each knob. The others are drawn without replacement from the policy, the
        likeliest more often. They are fewer than `count` only if the space is as small, or almost.

        Args:
            setting: The task, the graph and the machine.
            space: Any values of any knobs.
            objectives: The limits and the priority.
            levels: The default configuration's prediction, and the setting's corrections.
            count: Number of rows, at least 1.
            seed: Decides the draws.
            doubt: Share of an unmeasured setting's uncertainty to allow for, from 0, predictions are true, to 1.
                docs/design/trials.md compares the proposals of the default.
        """
        random, choices = generator(seed, "policy.propose"), Choices(setting, space)
        goal = goal_of(setting, objectives, levels, doubt)
        constant = np.concatenate([self.scale.scaled(setting_features(setting)), goal, choices.mask])
        greedy = self._choose(choices, constant, 1, None)
        drawn = np.concatenate([greedy, self._choose(choices, constant, count, random)])
        rows = choices.rows(drawn)
        for _ in range(_ROUNDS if choices.draws else 0):
            rows = np.concatenate([rows, choices.rows(drawn, random)])
        rows = _distinct(rows)
        if len(rows) < count:
            rows = _distinct(np.concatenate([rows, space.sample(_ROUNDS * count, seed)]))
        return rows[:count]

    def _choose(
        self, choices: Choices, constant: NDArray[np.float32], count: int, random: np.random.Generator | None
    ) -> Rows:
        """Returns the slots of up to `count` different configurations, int64, shape (n, `NUM_KNOBS`).

        They are drawn without replacement by stochastic beam search (Kool, van Hoof and Welling, 2019): the largest
        perturbed log-probabilities. Without `random`, the one configuration with the likeliest value of each knob.
        """
        inputs, biases = self.layers[0]
        first = constant @ inputs[: len(constant)] + biases
        of_slots = inputs[len(constant) : len(constant) + NUM_SLOTS]
        of_next = inputs[len(constant) + NUM_SLOTS :]
        hidden, chosen = first[None], np.zeros((1, NUM_KNOBS), dtype=np.int64)
        total, perturbed = np.zeros(1), np.zeros(1)
        for step in range(NUM_KNOBS):
            legal = choices.legal(step, chosen, choices.mask)
            parents, taken = np.nonzero(legal)
            if len(parents) > len(chosen):
                logs = self._log_probabilities(hidden + of_next[step], step, legal)
                if random is None:
                    parents, taken = np.arange(1), logs.argmax(axis=1)
                else:
                    own = total[:, None] + logs
                    keys = _perturbed(own, perturbed, random)
                    order = np.argsort(-keys[parents, taken], kind="stable")[:count]
                    parents, taken = parents[order], taken[order]
                    total, perturbed = own[parents, taken], keys[parents, taken]
            chosen, hidden = chosen[parents], hidden[parents] + of_slots[STARTS[step] + taken]
            chosen[:, step] = taken
        return chosen

    def _log_probabilities(
        self, hidden: NDArray[np.float32], step: int, legal: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Returns the logarithms of the next knob's probabilities, -inf where not `legal`, (n, `MOST_SLOTS`)."""
        for weights, biases in self.layers[1:-1]:
            hidden = np.maximum(hidden, 0) @ weights + biases
        weights, biases = (one[..., slots_of(step)] for one in self.layers[-1])
        logits = np.full(legal.shape, -np.inf)
        own = np.maximum(hidden, 0) @ weights + biases
        logits[:, : own.shape[1]] = np.where(legal[:, : own.shape[1]], own, -np.inf)
        logits -= logits.max(axis=1, keepdims=True)
        return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


def _perturbed(
    logs: NDArray[np.float64], parents: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.float64]:
    """Returns Gumbel variables with locations `logs` (n, m), the largest of each row equal to `parents` (n,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = logs + random.gumbel(size=logs.shape)
        moved = parents[:, None] - drawn + np.log1p(-np.exp(drawn - drawn.max(axis=1, keepdims=True)))
        found = parents[:, None] - np.maximum(moved, 0) - np.log1p(np.exp(-np.abs(moved)))
    return np.where(np.isfinite(logs), found, -np.inf)


def _distinct(rows: Rows) -> Rows:
    """Returns the distinct ones of `rows`, in the order of their first appearance."""
    return rows[np.sort(np.unique(rows, axis=0, return_index=True)[1])]
