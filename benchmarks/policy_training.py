"""Training of the policy that ships, by PPO (Schulman et al., 2017), and the settings that it imagines to train in."""

from __future__ import annotations

import dataclasses
import math
import random as python_random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.distributions import CategoricalDistribution, Distribution
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices
from torch import nn

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.hardware import Hardware
from a3gnn.seeding import derive, generator
from a3gnn.setting import Setting
from a3gnn_envs.choices import MOST_SLOTS, NUM_KNOBS, NUM_SLOTS, STARTS
from a3gnn_envs.configure_env import ConfigureEpisodes
from a3gnn_envs.episodes import Episodes
from a3gnn_envs.observation import Scale
from a3gnn_envs.policy import LAYERS, Policy
from a3gnn_envs.situation import Situation

# Hyperparameters with which the shipped policy was trained.
#: Width of the layers of the actor and of the critic.
WIDTH = 128
#: Share of the steps without a choice that are learned from.
_FORCED_SHARE = 0.2
#: Logit of a forbidden action.
_FORBIDDEN = -1e8
#: Standard deviations of the logarithms of imagined graphs' sizes and imagined machines' constants.
_SIZES, _CONSTANTS = 0.7, 0.35
#: Share of imagined machines that have a device, and how many times the host's arithmetic these have.
_WITH_DEVICE, _DEVICE_SPEED = 0.3, (10.0, 100.0)
_CORES = (2, 2, 4, 8, 16)


#: Observations, as stable-baselines3 declares them.
Observed = torch.Tensor | dict[str, torch.Tensor]


class BatchedVecEnv(VecEnv):
    """Steps all of `episodes` at once, with the semantics of `DummyVecEnv` over single environments.

    An environment whose episode terminates is reset within the step; the last observation is in
    `infos[i]["terminal_observation"]`. All environments terminate, so `TimeLimit.truncated` is always False there.
    All environments share one generator, which the next reset seeds with the first of the seeds given to `seed`.
    """

    def __init__(self, episodes: Episodes) -> None:
        self.render_mode = None
        self.episodes = episodes
        self._actions = np.zeros((episodes.num_envs, *(episodes.action_space.shape or ())), dtype=np.int64)
        super().__init__(episodes.num_envs, episodes.observation_space, episodes.action_space)

    def reset(self) -> NDArray[np.float32]:
        """Returns the first observations of new episodes, float32, shape (num_envs, *observation_space.shape)."""
        if self._seeds[0] is not None:
            self.episodes.np_random = np.random.default_rng(self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        self.episodes.reset(np.ones(self.num_envs, dtype=np.bool_))
        return self.episodes.observe()

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Keeps `actions`, shape (num_envs, *action_space.shape), for `step_wait`."""
        self._actions = np.asarray(actions, dtype=np.int64)

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Returns observations, rewards (float32), dones (bool) and one dictionary per environment."""
        rewards, dones = self.episodes.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if dones.any():
            last = self.episodes.observe()
            for i in np.flatnonzero(dones):
                infos[i] = {"terminal_observation": last[i], "TimeLimit.truncated": False}
            self.episodes.reset(dones)
        return self.episodes.observe(), rewards, dones, infos

    def close(self) -> None:
        """Does nothing: there is nothing to release."""

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns the attribute that all environments share, once for each of `indices`."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets the attribute that all environments share."""
        setattr(self, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Is not supported: the environments are rows of arrays, without methods of their own.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(f"a batched environment can't call {method_name} on single ones; call it on .episodes")

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Returns False for each of `indices`."""
        return [False for _ in self._get_indices(indices)]


class MaskedPolicy(ActorCriticPolicy):
    """Actor and critic over observations of `ConfigureEnv`: a logit per slot, of which the next knob's are allowed."""

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        numbers = int(self.observation_space.shape[0]) - MOST_SLOTS  # type: ignore[index]
        self.actor = _network(numbers, NUM_SLOTS, last=0.01)  # the first policy is about uniform
        self.critic = _network(numbers, 1, last=0.0)
        slots = torch.from_numpy(STARTS[:-1, None] + np.arange(MOST_SLOTS)).clamp(max=NUM_SLOTS - 1)
        self.register_buffer("slots", slots, persistent=False)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def _actor(self, obs: Observed) -> CategoricalDistribution:
        assert isinstance(obs, torch.Tensor), "the observation space is a Box"
        seen, legal = obs[:, :-MOST_SLOTS], obs[:, -MOST_SLOTS:] > 0
        step = seen[:, -NUM_KNOBS:].argmax(dim=1)
        slots: torch.Tensor = self.slots  # type: ignore[assignment]
        logits = self.actor(seen).gather(1, slots[step]).masked_fill(~legal, _FORBIDDEN)
        return CategoricalDistribution(MOST_SLOTS).proba_distribution(logits)

    def forward(
        self, obs: torch.Tensor, deterministic: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns actions, values and the logarithms of the actions' probabilities."""
        actor = self._actor(obs)
        actions = actor.get_actions(deterministic=deterministic)
        return actions, self.predict_values(obs), actor.log_prob(actions)

    def evaluate_actions(
        self, obs: Observed, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Returns values, the logarithms of the actions' probabilities, and entropies."""
        actor = self._actor(obs)
        return self.predict_values(obs), actor.log_prob(actions), actor.entropy()

    def get_distribution(self, obs: Observed) -> Distribution:
        """Returns the distribution of the next action."""
        return self._actor(obs)

    def predict_values(self, obs: Observed) -> torch.Tensor:
        """Returns the expected rewards, shape (n, 1)."""
        assert isinstance(obs, torch.Tensor), "the observation space is a Box"
        value: torch.Tensor = self.critic(obs[:, :-MOST_SLOTS])
        return value

    def _predict(self, observation: Observed, deterministic: bool = False) -> torch.Tensor:
        return self._actor(observation).get_actions(deterministic=deterministic)


class _ChoiceBuffer(RolloutBuffer):
    """Yields the steps of a rollout that have a choice, and some of the others, whose values alone can be learned."""

    def get(self, batch_size: int | None = None) -> Iterator[RolloutBufferSamples]:  # type: ignore[override]
        """Yields batches of about `batch_size` steps in random order."""
        next(iter(super().get(self.buffer_size * self.n_envs)))  # flattens the arrays
        chosen = (self.observations[:, -MOST_SLOTS:] > 0).sum(axis=1) > 1
        kept = np.flatnonzero(chosen | (np.random.random(len(chosen)) < _FORCED_SHARE))  # noqa: NPY002 - as SB3 does
        np.random.shuffle(kept)  # noqa: NPY002
        for part in np.array_split(kept, max(len(kept) // (batch_size or len(kept)), 1)):
            yield self._get_samples(part)


def _network(inputs: int, outputs: int, last: float) -> nn.Sequential:
    """Returns `LAYERS` linear layers with ReLU between them; `last` is the scale of the last one's first weights."""
    widths = [inputs, *[WIDTH] * (LAYERS - 1), outputs]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        linear = nn.Linear(before, after)
        scale = last if len(layers) == 2 * (LAYERS - 1) else 1.0
        nn.init.orthogonal_(linear.weight, math.sqrt(2) * scale)  # as stable-baselines3 does
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train(
    situations: Sequence[Situation],
    episodes: int,
    seed: int,
    *,
    num_envs: int = 1024,
    num_active: int = 16,
    report: Callable[[int, float], None] | None = None,
) -> tuple[Policy, MaskedPolicy]:
    """Returns a policy that is trained in `situations`, and stable-baselines3's network that it was made of.

    Deterministic for a seed on one machine. Trains on the CPU in one thread, since small networks gain little from
    more, and restores torch's number of threads and all global generators. The shipped policy was trained with the
    defaults and these parameters of PPO; docs/design/trials.md has what its proposals gain. No others were compared.

    Args:
        situations: Each episode is in one of them.
        episodes: Number of episodes, and so of predictions; rounded down to a multiple of `num_envs`, at least that.
        seed: Decides initial weights, episodes and actions.
        num_envs: Episodes at a time.
        num_active: Situations at a time, each in as many episodes.
        report: Called after each batch of episodes with their number so far and their mean reward.
    """
    scale = Scale.fit(np.stack([one.features for one in situations]))
    with isolated_torch():
        env = BatchedVecEnv(ConfigureEpisodes(situations, num_envs, scale, num_active=num_active))
        env.seed(derive(seed, "configure", "episodes") % 2**32)
        made = PPO(
            MaskedPolicy,
            env,
            learning_rate=lambda left: 5e-5 + (3e-3 - 5e-5) * left,
            n_steps=NUM_KNOBS,
            batch_size=num_envs * NUM_KNOBS // max(num_envs // 32, 1),
            n_epochs=3,
            gamma=1.0,
            gae_lambda=1.0,
            ent_coef=0.01,
            rollout_buffer_class=_ChoiceBuffer,
            seed=derive(seed, "configure", "network") % 2**32,
            device="cpu",
        )
        made.set_logger(Logger(folder=None, output_formats=[]))  # SB3's default logger creates a temporary folder
        made.learn(max(episodes // num_envs, 1) * num_envs * NUM_KNOBS, callback=_Report(report))
    network = made.policy
    assert isinstance(network, MaskedPolicy)
    network.set_training_mode(False)
    return extracted(network, scale), network


def extracted(network: MaskedPolicy, scale: Scale) -> Policy:
    """Returns the actor of `network` as arrays."""
    layers = [layer for layer in network.actor if isinstance(layer, nn.Linear)]
    arrays = ((layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy()) for layer in layers)
    return Policy(tuple(arrays), scale)


class _Report(BaseCallback):
    """Reports the mean reward of each batch of episodes."""

    def __init__(self, report: Callable[[int, float], None] | None) -> None:
        super().__init__()
        self._report = report

    def _on_step(self) -> bool:
        if self._report is not None and self.locals["dones"].all():
            self._report(self.num_timesteps // NUM_KNOBS, float(self.locals["rewards"].mean()))
        return True


def imagined(settings: Sequence[Setting], count: int, seed: int) -> list[Setting]:
    """Returns `count` settings to train in: graphs, tasks and machines of `settings`, mixed, and changed at random.

    A policy that only saw the few graphs and machines of the corpus would learn them by heart. Sizes and constants are
    multiplied by random factors; shares stay. Some machines get a device.
    """
    random, found = generator(seed, "imagined"), []
    for number in range(count):
        graph, task, machine = (settings[int(random.integers(len(settings)))] for _ in range(3))
        own = _imagined_graph(graph.graph, random) if number % 4 else graph.graph
        hardware = _imagined_machine(machine.hardware, random) if number % 2 else machine.hardware
        found.append(Setting(task.task, dataclasses.replace(own, fingerprint=f"imagined {number}"), hardware))
    return found


def _imagined_graph(graph: GraphCharacteristics, random: np.random.Generator) -> GraphCharacteristics:
    nodes, degree, features, seeds = np.exp(_SIZES * random.standard_normal(4))
    num_nodes = max(round(graph.num_nodes * nodes), 1_000)
    num_features = max(round(graph.num_features * features), 2)
    row_bytes = graph.row_bytes * num_features / graph.num_features
    train = int(np.clip(graph.num_train * nodes * seeds, 64, 0.9 * num_nodes))
    return dataclasses.replace(
        graph,
        num_nodes=num_nodes,
        num_edges=round(graph.num_edges * degree * num_nodes / graph.num_nodes),
        mean_degree=graph.mean_degree * degree,
        p95_degree=graph.p95_degree * degree,
        max_degree=min(round(graph.max_degree * degree), num_nodes),
        num_features=num_features,
        feature_bytes=round(graph.feature_bytes * row_bytes / graph.row_bytes * num_nodes / graph.num_nodes),
        row_bytes=row_bytes,
        num_train=train,
        num_val=min(graph.num_val, num_nodes - train),
        label_rate=train / num_nodes,
    )


def _imagined_machine(hardware: Hardware, random: np.random.Generator) -> Hardware:
    profile = hardware.profile
    varied = (
        *("random_reads_per_s", "copy_bytes_per_s", "disk_read_bytes_per_s", "gemm_flops_per_s", "spmm_bytes_per_s"),
        "batch_overhead_s",
    )
    factors = np.exp(_CONSTANTS * random.standard_normal(len(varied)))
    changes: dict[str, Any] = {name: getattr(profile, name) * f for name, f in zip(varied, factors, strict=True)}
    cores = int(random.choice(_CORES))
    for name in ("gemm_flops_per_s", "spmm_bytes_per_s"):
        changes[name] *= cores / hardware.num_cores
    changes["bf16_gemm_flops_per_s"] = changes["gemm_flops_per_s"] * random.choice([0.5, 1.0, 2.0, 4.0])
    device: dict[str, Any] = {}
    if random.random() < _WITH_DEVICE:
        low, high = np.log(_DEVICE_SPEED)
        speed = changes["gemm_flops_per_s"] / cores * 8 * np.exp(random.uniform(low, high))
        changes |= {
            "host_to_device_bytes_per_s": float(np.exp(random.uniform(np.log(5e9), np.log(5e10)))),
            "device_gemm_flops_per_s": speed,
            "device_bf16_gemm_flops_per_s": speed * random.choice([1.0, 4.0, 8.0]),
            "idle_device_bytes": 400 * 2**20,
        }
        memory = int(random.choice([8, 16, 24, 80])) * 2**30
        device = {"device": "imagined", "num_devices": int(random.choice([1, 1, 2, 4])), "device_memory_bytes": memory}
    profile = dataclasses.replace(profile, **changes)
    return dataclasses.replace(hardware, num_cores=cores, profile=profile, label="imagined", **device)


@contextmanager
def isolated_torch() -> Iterator[None]:
    """Uses one torch thread, and afterwards restores it and the global generators, which SB3 seeds."""
    threads = torch.get_num_threads()
    python, numpy = python_random.getstate(), np.random.get_state()  # noqa: NPY002 - SB3 draws from the legacy generator
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)
        python_random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
