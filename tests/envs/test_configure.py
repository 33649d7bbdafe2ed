"""Configuring one knob after the other: choices, episodes, their training, and proposals without torch."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env as check_for_gymnasium
from stable_baselines3.common.env_checker import check_env as check_for_sb3

from a3gnn.config import TrainConfig
from a3gnn.errors import StoreError
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.limits import Limits
from a3gnn.objectives import Objectives, Priority
from a3gnn.prediction import Prediction
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from a3gnn_envs.choices import MOST_SLOTS, NUM_KNOBS, NUM_SLOTS, ORDER, SIGNATURE, Choices
from a3gnn_envs.configure_env import ConfigureEpisodes
from a3gnn_envs.observation import GOAL, NUM_FEATURES, Levels, Scale, goal_of, setting_features
from a3gnn_envs.policy import SHIPPED, Policy
from a3gnn_envs.situation import Situation
from a3gnn_surrogate.known_curves import KnownDefault
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.policy_training import MaskedPolicy, imagined, train

PRIORITIES = ("time", "throughput", "memory", "accuracy", "balanced")
Restrict = Callable[[SearchSpace], SearchSpace]
#: Spaces of users: fixed knobs, ranges with values of their own, names and partitions that no search tries.
RESTRICTIONS: dict[str, Restrict] = {
    "whole": lambda space: space,
    "fixed": lambda space: space.fix("batch_size", 512).fix("parallel_mode", "mode1").fix("seed_fanout", "task"),
    "ranges": lambda space: space.restrict("batch_size", 100, 900).restrict("cache_bytes", 1000, 9000),
    "foreign": lambda space: space.fix("cache_policy", "clock").fix("partitioner", "random").fix("adapt", "on"),
    "one": lambda space: SearchSpace(tuple(dataclasses.replace(k, values=k.values[-1:]) for k in space.knobs)),
    "no parts": lambda space: space.without_parts("metis", 2).without_parts("blocks", 4),
    "only parts": lambda space: space.fix("num_partitions", 8).without_parts("metis", 8),
    "too many parts": lambda space: space.fix("num_partitions", 8).without_parts("metis", 8).without_parts("blocks", 2),
}


@pytest.fixture(scope="module")
def setting(tiny_graph: Graph, hardware: Hardware) -> Setting:
    graph = dataclasses.replace(tiny_graph.characteristics(), num_nodes=30_000, num_train=9_000)
    return Setting(Task(), graph, hardware)


@pytest.fixture(scope="module")
def accelerated(setting: Setting) -> Setting:
    hardware = setting.hardware
    profile = dataclasses.replace(
        hardware.profile, device_gemm_flops_per_s=1e13, host_to_device_bytes_per_s=1e10, idle_device_bytes=2**28
    )
    more = {"num_cores": 8, "device": "a device", "num_devices": 1, "device_memory_bytes": 2**34}
    return dataclasses.replace(setting, hardware=dataclasses.replace(hardware, profile=profile, **more))


def situation(setting: Setting, restrict: Restrict = RESTRICTIONS["whole"]) -> Situation:
    """The analytic model's predictions, relative to a default of accuracy .5."""
    surrogate, space = Surrogate("none").fit([]), restrict(SearchSpace.of(setting))
    default = KnownDefault(val_accuracy=0.5)
    return Situation(setting, lambda rows: surrogate.predict(space.columns(rows), setting, default), space)


def levels(own: Situation) -> Levels:
    return Levels(own.predict(own.space.canonical(np.zeros((1, NUM_KNOBS), dtype=np.int64))))


def objectives(priority: str = "throughput", device: bool = False) -> Objectives:
    return Objectives(Limits(host_bytes=2**29, least_accuracy=0.49), Priority.parse(priority), device)


@pytest.fixture(scope="module")
def scale(setting: Setting, accelerated: Setting) -> Scale:
    return Scale.fit(np.stack([setting_features(one) for one in (setting, accelerated)]))


@pytest.fixture(scope="module")
def trained(setting: Setting, accelerated: Setting) -> tuple[Policy, MaskedPolicy]:
    return train([situation(setting), situation(accelerated)], 64, seed=0, num_envs=32, num_active=4)


def played(episodes: ConfigureEpisodes, seed: int) -> np.ndarray:
    """Plays random allowed actions to the end, and returns the rewards of the last step."""
    random = np.random.default_rng(seed)
    for step in range(NUM_KNOBS):
        allowed = episodes.action_masks()
        assert allowed.any(axis=1).all()
        rewards, over = episodes.step(np.argmax(random.random(allowed.shape) * allowed, axis=1))
        assert over.all() == (step == NUM_KNOBS - 1)
        assert over.all() or not rewards.any()
    return rewards


def test_knobs_come_after_those_that_decide_whether_they_are_idle() -> None:
    place = {knob.name: number for number, knob in enumerate(ORDER)}
    assert len(place) == len({*TrainConfig().canonical().to_dict()} - {"schema_version"})
    for knob in ORDER:
        assert all(place[name] < place[knob.name] for name in knob.idle.names), knob.name
    assert place["input_aggregation"] < min(place["seed_fanout"], place["deep_fanout"])


@pytest.mark.parametrize("name", RESTRICTIONS)
@pytest.mark.parametrize("device", [False, True])
def test_different_choices_are_different_canonical_rows(
    setting: Setting, accelerated: Setting, name: str, device: bool
) -> None:
    own = situation(accelerated if device else setting, RESTRICTIONS[name])
    choices, random = own.choices, np.random.default_rng(0)
    chosen = np.zeros((500, NUM_KNOBS), dtype=np.int64)
    for step in range(NUM_KNOBS):
        legal = choices.legal(step, chosen, choices.mask)
        chosen[:, step] = np.argmax(random.random(legal.shape) * legal, axis=1)
    rows = choices.rows(chosen)
    np.testing.assert_array_equal(rows, own.space.canonical(rows))
    if name not in ("ranges", "too many parts"):  # there, choices are drawn from, or made possible afterwards
        np.testing.assert_array_equal(choices.slots(rows), choices.slots(own.space.canonical(rows)))
        assert len(np.unique(rows, axis=0)) == len(np.unique(chosen, axis=0))


def test_slots_of_every_row_can_be_chosen(setting: Setting) -> None:
    choices = Choices.full(setting)
    rows = choices.space.sample(300, seed=0)
    chosen = choices.slots(rows)
    for step in range(NUM_KNOBS):
        legal = choices.legal(step, chosen, choices.mask)
        assert legal[np.arange(len(rows)), chosen[:, step]].all(), ORDER[step].name
    np.testing.assert_array_equal(choices.rows(chosen), rows)


@pytest.mark.parametrize("fixed", [False, True])
def test_passes_both_checkers(setting: Setting, scale: Scale, fixed: bool) -> None:
    own = situation(setting)
    env = gymnasium.make(
        "a3gnn/Configure-v0",
        setting=setting,
        predict=own.predict,
        scale=scale,
        objectives=objectives() if fixed else None,
    ).unwrapped
    check_for_gymnasium(env)
    check_for_sb3(env)
    observation, info = env.reset(seed=1)
    size = NUM_FEATURES + len(GOAL) + 2 * NUM_SLOTS + NUM_KNOBS + MOST_SLOTS
    assert observation.shape == (size,)
    np.testing.assert_array_equal(info["action_mask"], env.action_masks())  # type: ignore[attr-defined]
    np.testing.assert_array_equal(info["action_mask"], observation[-MOST_SLOTS:] > 0)


def test_episodes_never_leave_their_spaces(setting: Setting, accelerated: Setting, scale: Scale) -> None:
    episodes = ConfigureEpisodes([situation(setting), situation(accelerated)], 64, scale, num_active=4)
    episodes.np_random = np.random.default_rng(0)
    for seed in range(3):
        episodes.reset(np.ones(64, dtype=np.bool_))
        rewards = played(episodes, seed)
        assert np.isfinite(rewards).all()
        assert rewards.min() >= -2
        assert episodes.observation_space.contains(episodes.observe()[0])
        assert any(not (episodes.masks[at] == own.choices.mask).all() for own, at in episodes.groups)
        for own, at in episodes.groups:
            rows = own.choices.rows(episodes.chosen[at])
            np.testing.assert_array_equal(rows, own.space.canonical(rows))


def test_a_forbidden_action_is_replaced(setting: Setting, scale: Scale) -> None:
    own = situation(setting, RESTRICTIONS["fixed"])
    episodes = ConfigureEpisodes([own], 1, scale, objectives())
    episodes.reset(np.ones(1, dtype=np.bool_))
    for _ in range(NUM_KNOBS):
        episodes.step(np.array([0]))
    config = own.space.decode(own.choices.rows(episodes.chosen)[0])
    assert (config.batch_size, config.parallel_mode) == (512, "mode1")


@pytest.mark.parametrize("priority", PRIORITIES)
def test_rewards_are_gains_over_the_default_where_predictions_are_true(
    setting: Setting, scale: Scale, priority: str
) -> None:
    own, goal = situation(setting), objectives(priority)
    least = 0.48
    goal = dataclasses.replace(goal, limits=Limits(host_bytes=1_500_000_000, least_accuracy=least))
    episodes = ConfigureEpisodes([own], 64, scale, goal, doubt=0.0, corrections=[0.0] * 5)
    episodes.np_random = np.random.default_rng(1)
    episodes.reset(np.ones(64, dtype=np.bool_))
    rewards = played(episodes, 2)

    def certain(rows: np.ndarray) -> Prediction:
        mean = own.predict(rows).mean
        return Prediction(mean, mean, mean)

    found = certain(own.choices.rows(episodes.chosen))
    default = certain(own.space.encode(TrainConfig())[None])
    violation, gains = goal.limits.violation(found), goal.score(found) - goal.score(default)
    broken = violation > 0
    np.testing.assert_allclose(rewards[broken], -1 - np.minimum(violation[broken], 1), rtol=1e-5)
    kept = rewards[~broken]
    assert len(kept) > 3
    np.testing.assert_array_equal(np.sign(kept), np.sign(gains[~broken]))
    assert (np.diff(kept[np.argsort(gains[~broken])]) >= -1e-6).all()


def test_goals_are_observed_as_proposals_state_them(setting: Setting, scale: Scale) -> None:
    own, goal = situation(setting), objectives("time")
    corrections = (0.1, 0.0, -0.2, 0.3, -0.4)
    episodes = ConfigureEpisodes([own], 3, scale, goal, doubt=0.25, corrections=corrections)
    episodes.reset(np.ones(3, dtype=np.bool_))
    baseline = own.predict(own.space.encode(TrainConfig())[None])
    stated = goal_of(setting, goal, Levels(baseline, corrections), 0.25)
    np.testing.assert_allclose(episodes.observe()[1, NUM_FEATURES : NUM_FEATURES + len(GOAL)], stated, rtol=1e-5)


def test_numpy_has_the_logits_of_torch(
    trained: tuple[Policy, MaskedPolicy], setting: Setting, accelerated: Setting
) -> None:
    policy, network = trained
    episodes = ConfigureEpisodes([situation(setting), situation(accelerated)], 32, policy.scale, num_active=2)
    episodes.reset(np.ones(32, dtype=np.bool_))
    for _ in range(5):
        observed = episodes.observe()
        with torch.no_grad():
            expected = network.actor(torch.from_numpy(observed[:, :-MOST_SLOTS])).numpy()
            probabilities = network.get_distribution(torch.from_numpy(observed)).distribution.probs.numpy()  # type: ignore[union-attr]
        np.testing.assert_allclose(policy.logits(observed), expected, atol=1e-5)
        assert not probabilities[~episodes.action_masks()].any()
        episodes.step(np.argmax(probabilities, axis=1))


def test_the_first_row_is_what_the_network_likes_best(trained: tuple[Policy, MaskedPolicy], setting: Setting) -> None:
    policy, network = trained
    own, goal = situation(setting), objectives()
    baseline = own.predict(own.space.encode(TrainConfig())[None])
    episodes = ConfigureEpisodes([own], 1, policy.scale, goal, doubt=0.5, corrections=[0.0] * 5)
    episodes.reset(np.ones(1, dtype=np.bool_))
    for _ in range(NUM_KNOBS):
        actions, _ = network.predict(episodes.observe(), deterministic=True)
        episodes.step(actions)
    rows = policy.propose(setting, own.space, goal, Levels(baseline), 8, seed=0, doubt=0.5)
    np.testing.assert_array_equal(rows[0], own.choices.rows(episodes.chosen)[0])


@pytest.mark.parametrize("name", RESTRICTIONS)
@pytest.mark.parametrize("device", [False, True])
def test_proposals_are_distinct_rows_of_any_space(
    trained: tuple[Policy, MaskedPolicy], setting: Setting, accelerated: Setting, name: str, device: bool
) -> None:
    own = situation(accelerated if device else setting, RESTRICTIONS[name])
    rows = trained[0].propose(own.setting, own.space, objectives(device=device), levels(own), 100, seed=1)
    assert rows.dtype == np.int64
    assert len(rows) == min(100, own.space.num_distinct)
    assert len(np.unique(rows, axis=0)) == len(rows)
    np.testing.assert_array_equal(rows, own.space.canonical(rows))
    for row in rows:
        assert own.space.can_make(own.space.decode(row)) or name == "too many parts"


def test_a_seed_decides_the_proposals(trained: tuple[Policy, MaskedPolicy], setting: Setting) -> None:
    own = situation(setting)
    arguments: tuple[Any, ...] = (setting, own.space, objectives(), levels(own), 50)
    first = trained[0].propose(*arguments, seed=3)
    np.testing.assert_array_equal(first, trained[0].propose(*arguments, seed=3))
    other = trained[0].propose(*arguments, seed=4)
    np.testing.assert_array_equal(first[0], other[0])
    assert (first != other).any()


def test_draws_without_replacement_prefer_what_is_likely(
    trained: tuple[Policy, MaskedPolicy], setting: Setting
) -> None:
    policy, own = trained[0], situation(setting)
    weights, biases = policy.layers[-1]
    biases = biases.copy()
    biases[0] += 5  # the first batch size
    liking = Policy((*policy.layers[:-1], (weights, biases)), policy.scale)
    rows = liking.propose(setting, own.space, objectives(), levels(own), 200, seed=0)
    column = own.space.names.index(ORDER[0].name)
    assert (rows[:, column] == 0).mean() > 0.8


def test_training_is_deterministic(
    setting: Setting, trained: tuple[Policy, MaskedPolicy], accelerated: Setting
) -> None:
    threads, drawn = torch.get_num_threads(), torch.random.get_rng_state()
    again, _ = train([situation(setting), situation(accelerated)], 64, seed=0, num_envs=32, num_active=4)
    for (weights, _), (expected, _) in zip(again.layers, trained[0].layers, strict=True):
        np.testing.assert_array_equal(weights, expected)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), drawn)


def test_imagined_settings_are_settings(setting: Setting) -> None:
    found = imagined([setting], 40, seed=0)
    assert {one.hardware.has_device for one in found} == {False, True}
    assert len({one.graph.fingerprint for one in found}) == 40
    for one in found:
        assert np.isfinite(setting_features(one)).all()
        assert one.graph.num_train + one.graph.num_val <= one.graph.num_nodes
        assert SearchSpace.of(one).encode(TrainConfig()) is not None


def test_a_policy_is_read_as_it_was_saved(trained: tuple[Policy, MaskedPolicy], tmp_path: Path) -> None:
    policy = trained[0]
    read = Policy.load(policy.save(tmp_path / "policy.npz"))
    for (weights, biases), (own, ours) in zip(read.layers, policy.layers, strict=True):
        np.testing.assert_array_equal(weights, own)
        np.testing.assert_array_equal(biases, ours)
    np.testing.assert_array_equal(read.scale.mean, policy.scale.mean)


def test_a_policy_of_other_knobs_names_the_remedy(trained: tuple[Policy, MaskedPolicy], tmp_path: Path) -> None:
    path = trained[0].save(tmp_path / "policy.npz")
    with np.load(path) as file:
        arrays = dict(file)
    changed = [one.replace("8192, ", "") for one in SIGNATURE]
    for knobs, message in ((changed, "batch_size changed"), (SIGNATURE[::-1], "their order changed")):
        np.savez(path, **arrays | {"knobs": np.array(knobs)})
        with pytest.raises(StoreError, match=rf"{message}.*make policy"):
            Policy.load(path)
    np.savez(path, **arrays | {"version": np.array(0)})
    with pytest.raises(StoreError, match="make policy"):
        Policy.load(path)
    path.write_bytes(b"nothing")
    for missing in (path, tmp_path / "nowhere.npz"):
        with pytest.raises(StoreError, match="make policy"):
            Policy.load(missing)


def test_the_shipped_policy_proposes_without_torch() -> None:
    code = (
        "import sys; from a3gnn_envs.policy import SHIPPED, Policy; Policy.load();"
        "sys.exit('torch' in sys.modules or 'stable_baselines3' in sys.modules)"
    )
    path = ":".join(p for p in sys.path if p)
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, check=False).returncode == 0
    assert SHIPPED.stat().st_size < 2**19
