from __future__ import annotations

import json
import random
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from a3gnn.errors import UsageError
from a3gnn_envs.context import Context
from a3gnn_envs.policy import Policy
from a3gnn_envs.pretraining import MIN_EVALUATIONS, train_policy
from a3gnn_envs.rewards import scalarise


@pytest.fixture(scope="module")
def policy(many_contexts: list[Context]) -> Policy:
    return train_policy(many_contexts, 4096, seed=0)


def test_trained_proposals_are_worth_more_than_random_ones(policy: Policy, many_contexts: list[Context]) -> None:
    weights = np.full(3, 1 / 3)

    def score(context: Context, rows: np.ndarray) -> float:
        found = context.predict(rows)
        return float(scalarise(context.scale.utilities(found), weights, context.limits.violation(found)).mean())

    proposed = [score(c, policy.propose(c, 64, seed=1)) for c in many_contexts]
    drawn = [score(c, c.space.sample(64, seed=1)) for c in many_contexts]
    assert np.mean(proposed) > np.mean(drawn) + 0.2


def test_proposals_are_canonical_and_decided_by_the_seed(policy: Policy, many_contexts: list[Context]) -> None:
    context = many_contexts[0]
    rows = policy.propose(context, 40, seed=3)
    assert rows.shape == (40, len(context.space.nvec))
    np.testing.assert_array_equal(rows, context.space.canonical(rows))
    np.testing.assert_array_equal(rows, policy.propose(context, 40, seed=3))
    assert (rows != policy.propose(context, 40, seed=4)).any()


def test_training_leaves_no_files(
    many_contexts: list[Context], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    train_policy(many_contexts, MIN_EVALUATIONS, seed=0)
    assert not list(tmp_path.iterdir())


def test_training_is_deterministic_and_leaves_the_process_as_it_was(context: Context) -> None:
    threads, python, numpy = torch.get_num_threads(), random.getstate(), np.random.get_state()[1]  # noqa: NPY002
    drawn = torch.random.get_rng_state()
    first = train_policy([context], MIN_EVALUATIONS, seed=5)
    second = train_policy([context], MIN_EVALUATIONS, seed=5)
    np.testing.assert_array_equal(first.propose(context, 32, 0), second.propose(context, 32, 0))
    assert torch.get_num_threads() == threads
    assert random.getstate() == python
    np.testing.assert_array_equal(np.random.get_state()[1], numpy)  # noqa: NPY002
    assert torch.equal(torch.random.get_rng_state(), drawn)


def test_training_keeps_its_evaluations(context: Context) -> None:
    seen = 0

    def counted(rows: np.ndarray) -> object:
        nonlocal seen
        seen += len(rows)
        return context.predict(rows)

    policy = train_policy([Context(context.space, counted, context.limits)], 1000, seed=0)  # type: ignore[arg-type]
    surveyed = 128
    assert policy.evaluations <= 1000
    assert seen == policy.evaluations + surveyed


def test_training_stops_when_it_is_told_to(context: Context) -> None:
    asked: list[int] = []

    def go_on(count: int) -> bool:
        asked.append(count)
        return len(asked) < 3

    policy = train_policy([context], 4096, seed=0, go_on=go_on)
    assert policy.evaluations == sum(asked)


def test_too_few_evaluations_are_refused(context: Context) -> None:
    with pytest.raises(UsageError, match=f">= {MIN_EVALUATIONS}"):
        train_policy([context], MIN_EVALUATIONS - 1, seed=0)


def test_saved_and_loaded_it_proposes_the_same(policy: Policy, many_contexts: list[Context], tmp_path: Path) -> None:
    policy.save(tmp_path / "policy")
    assert sorted(p.name for p in (tmp_path / "policy").iterdir()) == ["manifest.json", "weights.npz"]
    loaded = Policy.load(tmp_path / "policy")
    context = many_contexts[1]
    np.testing.assert_array_equal(loaded.propose(context, 50, 2), policy.propose(context, 50, 2))
    assert (loaded.names, loaded.evaluations, loaded.seed) == (policy.names, policy.evaluations, policy.seed)


def test_foreign_folders_are_refused(policy: Policy, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no policy"):
        Policy.load(tmp_path)
    policy.save(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | {"policy_version": 99}))
    with pytest.raises(UsageError, match="99"):
        Policy.load(tmp_path)
    (tmp_path / "weights.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(UsageError, match="no policy"):
        Policy.load(tmp_path)


def test_other_spaces_and_features_are_refused(policy: Policy, context: Context) -> None:
    fixed = context.space.fix("batch_size", 64)
    assert policy.matches(context.space, context.features)
    assert not policy.matches(fixed, context.features)
    assert not policy.matches(context.space, context.features[:-1])
    other = Context(fixed, partial(context.predict), context.limits, False, context.features)
    with pytest.raises(UsageError, match="train one"):
        policy.propose(other, 4, seed=0)
