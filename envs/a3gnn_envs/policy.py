"""The policy: proposes configurations for weights of the objectives without evaluating any."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.distributions import MultiCategoricalDistribution
from stable_baselines3.common.policies import ActorCriticPolicy

from a3gnn.seeding import generator
from a3gnn_envs.context import Context
from a3gnn_envs.context_episodes import PREFERENCE_CONCENTRATION


@dataclass(frozen=True, slots=True)
class Policy:
    """A trained actor-critic network.

    Attributes:
        network: stable-baselines3's policy, on the CPU.
        context: What it was trained for.
        evaluations: Predictions that its training took, repeated ones included.
    """

    network: ActorCriticPolicy
    context: Context
    evaluations: int

    def propose(self, count: int, seed: int) -> NDArray[np.int64]:
        """Returns `count` canonical rows, each sampled for newly drawn weights, int64, shape (count, n_knobs)."""
        random = generator(seed, "policy.propose")
        weights = random.dirichlet(np.full(3, PREFERENCE_CONCENTRATION), size=count)
        observed = np.tile(self.context.observation, (count, 1))
        with torch.no_grad():
            inputs = torch.from_numpy(np.hstack([observed, weights.astype(np.float32)]))
            actor = self.network.get_distribution(inputs)
        assert isinstance(actor, MultiCategoricalDistribution)
        logits = [knob.logits.numpy() for knob in actor.distribution]
        rows = [np.argmax(knob + random.gumbel(size=knob.shape), axis=1) for knob in logits]  # the Gumbel-max trick
        return self.context.space.canonical(np.stack(rows, axis=1).astype(np.int64))
