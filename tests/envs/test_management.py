"""`ManagementEnv` and its training, on a run whose best division is known."""

from __future__ import annotations

import random
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env as check_for_gymnasium
from numpy.typing import NDArray
from stable_baselines3.common.env_checker import check_env as check_for_sb3

import a3gnn_envs  # noqa: F401 - registers the environment
from a3gnn.errors import StoreError, UsageError
from a3gnn.hybrid.control.learned import Network
from a3gnn_envs.management.management_env import CHANGE_COST, HORIZON, ManagementEpisodes
from a3gnn_envs.management.manager_training import PRIOR, ManagerTraining

ACTIONS = 3


class Line:
    """A place on a line, which is best at 0; an action goes down, stays, or goes up. The prior stays."""

    def __init__(self, place: int) -> None:
        self._place = place

    @classmethod
    def drawn(cls, random: np.random.Generator) -> Line:
        return cls(int(random.integers(-4, 5)))

    @property
    def seconds(self) -> float:
        return 2.0 ** abs(self._place)

    def observe(self) -> NDArray[np.float32]:
        return np.array([np.clip(self._place / 4, -2, 2), 0, 1, 0], dtype=np.float32)

    def step(self, action: int) -> tuple[float, bool]:
        self._place = max(-8, min(8, self._place + action - 1))
        return self.seconds, action != 1


def episodes(num_envs: int = 16) -> ManagementEpisodes:
    return ManagementEpisodes(Line.drawn, num_envs, 1 + ACTIONS, ACTIONS)


def test_passes_both_checkers():
    env = gymnasium.make("a3gnn/Management-v0", draw=Line.drawn, num_observed=4, num_actions=ACTIONS).unwrapped
    check_for_gymnasium(env)
    check_for_sb3(env)


def test_rewards_are_doublings_saved_less_what_changes_cost():
    own = episodes(2)
    own.np_random = np.random.default_rng(0)
    own.reset(np.ones(2, dtype=np.bool_))
    own._runs = [Line(3), Line(-2)]
    rewards, over = own.step(np.array([0, 1]))
    assert rewards == pytest.approx([1.0 - CHANGE_COST, 0.0])
    assert not over.any()
    for _ in range(HORIZON - 1):
        rewards, over = own.step(np.array([0, 1]))
    assert over.all()


def test_an_untrained_policy_does_what_it_starts_from_and_a_trained_one_what_pays():
    training = ManagerTraining(episodes(), seed=0)
    seen = torch.tensor(np.stack([Line(place).observe() for place in range(-4, 5)]))

    def done() -> list[int]:
        with torch.no_grad():
            return training.policy.get_distribution(seen).get_actions(deterministic=True).tolist()

    assert set(done()) == {1}
    for _ in range(10):  # processors round in their own ways, and so learn it after more rollouts or fewer
        training.train(30)
        if done()[:3] == [2, 2, 2] and done()[-3:] == [0, 0, 0] and training.reward > 1:
            break
    assert done()[:3] == [2, 2, 2]
    assert done()[-3:] == [0, 0, 0]
    assert training.reward > 1


def test_a_training_is_gone_on_with(tmp_path: Path):
    first = ManagerTraining(episodes(), 3, tmp_path / "state.pt")
    first.train(2)
    again = ManagerTraining(episodes(), 3, tmp_path / "state.pt")
    assert again.steps == first.steps == 2 * 16 * HORIZON
    pairs = zip(first.policy.state_dict().values(), again.policy.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    again.train(1)
    assert again.steps == 3 * 16 * HORIZON


def test_a_seed_decides_a_training_whatever_was_drawn_before():
    def weights() -> list[torch.Tensor]:
        training = ManagerTraining(episodes(), seed=5)
        for _ in range(2):
            random.random(), np.random.random(), torch.rand(1)  # noqa: NPY002 - SB3 draws from the legacy generator
            training.train(1)
        return list(training.policy.state_dict().values())

    assert all(torch.equal(one, other) for one, other in zip(weights(), weights(), strict=True))


def test_what_cannot_be_trained_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="rollouts must be >= 1, got 0"):
        ManagerTraining(episodes(), 0).train(0)
    (tmp_path / "state.pt").write_bytes(b"no training")
    with pytest.raises(StoreError, match="holds no training that can be gone on with"):
        ManagerTraining(episodes(), 0, tmp_path / "state.pt")


def test_the_network_without_torch_has_the_policys_logits(monkeypatch):
    monkeypatch.setattr("a3gnn.hybrid.control.learned.NUM_ACTIONS", ACTIONS)
    training = ManagerTraining(episodes(), seed=1)
    training.train(3)
    weights = {name: value.numpy() for name, value in training.policy.actor.state_dict().items()}
    network = Network(weights, PRIOR)
    for place in range(-4, 5):
        seen = Line(place).observe()
        with torch.no_grad():
            distribution = training.policy.get_distribution(torch.from_numpy(seen[None])).distribution
        found = network.logits(seen)
        expected = distribution.logits[0].numpy()  # normalised
        assert found - found.max() == pytest.approx(expected - expected.max(), abs=1e-5)
