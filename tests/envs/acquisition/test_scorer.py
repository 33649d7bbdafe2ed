from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces

from a3gnn.errors import StoreError, UsageError
from a3gnn_envs.acquisition.observation import BOUND, NUM_COLUMNS, TRUTH_COLUMNS, observe
from a3gnn_envs.acquisition.scorer import Scorer
from a3gnn_envs.acquisition.scorer_training import ROLLOUT, ScorerPolicy, TruthfulCritic, train_scorer
from a3gnn_envs.acquisition.simulated import SimulatedWorlds
from a3gnn_envs.acquisition.studies import FIDELITIES, Studies
from a3gnn_envs.acquisition.trial_values import choose, log_values
from a3gnn_envs.acquisition.world import World

CANDIDATES = 12


def studies_of(worlds: SimulatedWorlds, count: int, seed: int = 0) -> Studies:
    generator = np.random.default_rng(seed)
    return Studies(World.stack([worlds.draw(generator) for _ in range(count)], CANDIDATES))


def with_weights(seed: int) -> Scorer:
    """A scorer that says something of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scorer = Scorer()
        for weights in scorer.parameters():
            torch.nn.init.normal_(weights, std=0.5)
    return scorer.requires_grad_(False)


def test_untrained_it_is_the_baseline_exactly(worlds: SimulatedWorlds) -> None:
    scorer, studies, steps = Scorer(), studies_of(worlds, 64), 0
    while not studies.over.all():
        seen = observe(studies, np.zeros(64))
        actions = scorer.choose(seen)
        expected = choose(log_values(studies), studies.allowed())
        np.testing.assert_array_equal(actions[~studies.over], expected[~studies.over])
        studies.run(actions)
        steps += 1
    assert steps > 3


def test_the_order_of_candidates_does_not_matter(worlds: SimulatedWorlds) -> None:
    scorer, seen = with_weights(0), torch.from_numpy(observe(studies_of(worlds, 8), np.zeros(8)))
    order = np.random.default_rng(0).permutation(CANDIDATES)
    moved = torch.cat([seen[:, order], seen[:, -1:]], dim=1)
    logits, again = scorer(seen), scorer(moved)
    rows = logits[:, :-1].reshape(8, CANDIDATES, FIDELITIES)[:, order].reshape(8, -1)
    torch.testing.assert_close(again, torch.cat([rows, logits[:, -1:]], dim=1))
    assert not torch.allclose(again, logits)
    critic = TruthfulCritic().requires_grad_(False)
    torch.testing.assert_close(critic(moved), critic(seen))


def test_more_room_changes_no_score(worlds: SimulatedWorlds) -> None:
    scorer, critic = with_weights(1), TruthfulCritic().requires_grad_(False)
    seen = torch.from_numpy(observe(studies_of(worlds, 4), np.zeros(4)))
    nothing = torch.zeros(4, 5, NUM_COLUMNS)
    roomy = torch.cat([seen[:, :-1], nothing, seen[:, -1:]], dim=1)
    logits, again = scorer(seen), scorer(roomy)
    count = CANDIDATES * FIDELITIES
    torch.testing.assert_close(again[:, :count], logits[:, :count])
    torch.testing.assert_close(again[:, -1], logits[:, -1])
    torch.testing.assert_close(critic(roomy), critic(seen))


def test_what_is_not_allowed_is_never_drawn(worlds: SimulatedWorlds) -> None:
    studies = studies_of(worlds, 16, seed=2)
    policy = ScorerPolicy(
        spaces.Box(-BOUND, BOUND, (CANDIDATES + 1, NUM_COLUMNS), np.float32),
        spaces.Discrete(CANDIDATES * FIDELITIES + 1),
        lambda _: 0.0,
    )
    policy.scorer.load_state_dict(with_weights(2).state_dict())
    for _ in range(4):
        seen = torch.from_numpy(observe(studies, np.zeros(16)))
        with torch.no_grad():
            probabilities = policy.get_distribution(seen).distribution.probs.numpy()  # type: ignore[attr-defined]
            drawn, _, _ = policy(seen)
        allowed = studies.allowed().reshape(16, -1)
        assert (probabilities[:, :-1][~allowed] == 0).all()
        assert (probabilities[:, :-1][allowed] > 0).any()
        studies.run(drawn.numpy())


def test_the_critic_alone_sees_the_truth(worlds: SimulatedWorlds) -> None:
    seen = torch.from_numpy(observe(studies_of(worlds, 4), np.zeros(4)))
    other = seen.clone()
    other[..., TRUTH_COLUMNS] += 1.0
    scorer, critic = with_weights(3), TruthfulCritic().requires_grad_(False)
    torch.testing.assert_close(scorer(other), scorer(seen), rtol=0, atol=0)
    assert (critic(other) != critic(seen)).all()


def test_training_is_deterministic_and_leaves_the_process_as_it_was(worlds: SimulatedWorlds) -> None:
    threads, python, numpy = torch.get_num_threads(), random.getstate(), np.random.get_state()[1]  # noqa: NPY002
    drawn = torch.random.get_rng_state()
    first, second, other = (train_scorer(worlds, ROLLOUT, seed, CANDIDATES) for seed in (5, 5, 6))
    for name, weights in first.state_dict().items():
        assert torch.equal(weights, second.state_dict()[name])
    last = "layers.4.weight"
    assert first.state_dict()[last].any()
    assert not torch.equal(first.state_dict()[last], other.state_dict()[last])
    assert torch.get_num_threads() == threads
    assert random.getstate() == python
    np.testing.assert_array_equal(np.random.get_state()[1], numpy)  # noqa: NPY002
    assert torch.equal(torch.random.get_rng_state(), drawn)


def test_training_goes_on_from_a_start(worlds: SimulatedWorlds) -> None:
    start = with_weights(4)
    found = train_scorer(worlds, ROLLOUT, 0, CANDIDATES, start)
    off = [(a - b).abs().max() for a, b in zip(found.parameters(), start.parameters(), strict=True)]
    assert 0 < max(off) < 0.1
    with pytest.raises(UsageError, match=f">= {ROLLOUT}"):
        train_scorer(worlds, ROLLOUT - 1, 0, CANDIDATES)


def test_a_stored_network_answers_the_same_and_holds_no_pickle(worlds: SimulatedWorlds, tmp_path: Path) -> None:
    scorer = with_weights(5)
    scorer.save(tmp_path, {"seed": 5})
    assert {path.name for path in tmp_path.iterdir()} == {"manifest.json", "weights.npz"}
    with np.load(tmp_path / "weights.npz", allow_pickle=False) as file:
        assert all(file[name].dtype == np.float32 for name in file.files)
    seen = torch.from_numpy(observe(studies_of(worlds, 4), np.zeros(4)))
    torch.testing.assert_close(Scorer.load(tmp_path)(seen), scorer(seen), rtol=0, atol=0)


@pytest.mark.parametrize("change", [{"version": 0}, {"features": ["other"]}, {"format": "other"}])
def test_a_network_of_something_else_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    Scorer().save(tmp_path, {})
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | change))
    with pytest.raises(StoreError, match="must be of version 1"):
        Scorer.load(tmp_path)


def test_a_folder_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no acquisition"):
        Scorer.load(tmp_path)
    Scorer().save(tmp_path, {})
    (tmp_path / "weights.npz").write_bytes(b"PK")
    with pytest.raises(StoreError, match="holds no acquisition"):
        Scorer.load(tmp_path)
