from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from a3gnn.errors import UsageError
from a3gnn_envs.context import Context, scalarise
from a3gnn_envs.policy_training import MIN_EVALUATIONS, Policy, train_policy


@pytest.fixture(scope="module")
def policy(context: Context) -> Policy:
    return train_policy(context, 4096, seed=0)


def test_trained_proposals_are_worth_more_than_random_ones(policy: Policy, context: Context) -> None:
    weights = np.full(3, 1 / 3)

    def score(rows: np.ndarray) -> float:
        found = context.predict(rows)
        return float(scalarise(context.scale.utilities(found), weights, context.limits.violation(found)).mean())

    assert score(policy.propose(64, seed=1)) > score(context.space.sample(64, seed=1)) + 0.2


def test_proposals_are_canonical_and_decided_by_the_seed(policy: Policy, context: Context) -> None:
    rows = policy.propose(40, seed=3)
    assert rows.shape == (40, len(context.space.nvec))
    np.testing.assert_array_equal(rows, context.space.canonical(rows))
    np.testing.assert_array_equal(rows, policy.propose(40, seed=3))
    assert (rows != policy.propose(40, seed=4)).any()


def test_training_leaves_no_files(context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    train_policy(context, MIN_EVALUATIONS, seed=0)
    assert not list(tmp_path.iterdir())


def test_training_is_deterministic_and_leaves_the_process_as_it_was(context: Context) -> None:
    threads, python, numpy = torch.get_num_threads(), random.getstate(), np.random.get_state()[1]  # noqa: NPY002
    drawn = torch.random.get_rng_state()
    first = train_policy(context, MIN_EVALUATIONS, seed=5)
    second = train_policy(context, MIN_EVALUATIONS, seed=5)
    np.testing.assert_array_equal(first.propose(32, 0), second.propose(32, 0))
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

    policy = train_policy(Context(context.space, counted, context.limits), 1000, seed=0)  # type: ignore[arg-type]
    surveyed = 128
    assert policy.evaluations <= 1000
    assert seen == policy.evaluations + surveyed


def test_training_stops_when_it_is_told_to(context: Context) -> None:
    asked: list[int] = []

    def go_on(count: int) -> bool:
        asked.append(count)
        return len(asked) < 3

    policy = train_policy(context, 4096, seed=0, go_on=go_on)
    assert policy.evaluations == sum(asked)


def test_too_few_evaluations_are_refused(context: Context) -> None:
    with pytest.raises(UsageError, match=f">= {MIN_EVALUATIONS}"):
        train_policy(context, MIN_EVALUATIONS - 1, seed=0)
