"""What a learned controller can do, what it sees, and its network as files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.errors import StoreError
from a3gnn.hybrid.assignment import Assignment, Threads, trainer_kinds
from a3gnn.hybrid.control.controller import Algorithm1, ShareBounds
from a3gnn.hybrid.control.learned import BACK, MOVES, NUM_ACTIONS, NUM_OBSERVED, STAY, Learned, Network, Situation
from a3gnn.training.adapting.recorded import Managed
from a3gnn.training.adapting.stage_times import StageTimes

BATCH = 1024
SECONDS = st.floats(1e-5, 1.0)


def untrained(prior: float = 5.0) -> Network:
    """As a policy is before training: it adds nothing to what Algorithm 1 would do."""
    shapes = {"0": (8, NUM_OBSERVED), "2": (8, 8), "4": (NUM_ACTIONS, 8)}
    weights = {f"{name}.weight": np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    biases = {f"{name}.bias": np.zeros(shape[0], dtype=np.float32) for name, shape in shapes.items()}
    return Network(weights | biases, prior)


@st.composite
def measured(draw: st.DrawFn) -> tuple[Assignment, StageTimes]:
    kinds = trainer_kinds(2)
    own, there = draw(st.integers(0, BATCH)), draw(st.integers(0, BATCH))
    rest = BATCH - own
    threads = Threads(*(draw(st.integers(1, 6)) for _ in range(3)))
    assignment = Assignment(kinds, (own, rest - rest // 2, rest // 2), there, threads)
    here, on_devices, loading, sent, one, two = (draw(SECONDS) for _ in range(6))
    trained = tuple(
        seconds if share else 0.0 for seconds, share in zip((one, two, two), assignment.shares, strict=True)
    )
    times = StageTimes(kinds, here, on_devices if there else 0.0, loading, (0.0, sent, sent), trained, 1e-4)
    return assignment, times.with_iteration(draw(SECONDS))


@settings(max_examples=200)
@given(found=measured(), action=st.integers(0, NUM_ACTIONS - 1), most=st.integers(1, BATCH))
def test_whatever_is_done_the_mini_batch_and_the_threads_stay_whole(found, action, most):
    assignment, times = found
    situation = Situation(ShareBounds(most))
    seen = situation.see(assignment, times)
    assert seen.shape == (NUM_OBSERVED,)
    assert seen.dtype == np.float32
    assert np.abs(seen).max() <= 2
    after = situation.act(action)
    assert after.batch_size == BATCH
    assert after.threads.total == assignment.threads.total
    before, now = (one.seeds_of("accelerator") for one in (assignment, after))
    assert now <= max(before, most)
    if action in (STAY, BACK):
        assert after == assignment


@settings(max_examples=100)
@given(found=measured())
def test_untrained_it_does_what_algorithm_1_does(found):
    assignment, times = found
    bounds = ShareBounds(BATCH)
    learned = Learned(bounds, untrained()).adjust(assignment, times)
    assert learned == Algorithm1(bounds, hysteresis=0.0).adjust(assignment, times)


def test_every_move_moves_something_somewhere():
    kinds = trainer_kinds(1)
    assignment = Assignment(kinds, (512, 512), 512, Threads(4, 4, 4))
    done = set()
    rng = np.random.default_rng(0)
    for _ in range(100):
        seconds = rng.uniform(1e-3, 1e-2, 6)
        times = StageTimes(kinds, *seconds[:3], (0.0, seconds[3]), tuple(seconds[4:]), 0.0).with_iteration(1e-2)
        for action in range(2, NUM_ACTIONS):
            situation = Situation(ShareBounds(BATCH))
            situation.see(assignment, times)
            if situation.act(action) != assignment:
                done.add(action)
    assert done == set(range(2, NUM_ACTIONS))
    assert len(set(MOVES)) == len(MOVES)


def test_going_back_finds_the_fastest_division_until_the_machine_changes():
    kinds = trainer_kinds(1)
    first = Assignment(kinds, (512, 512), 0, Threads(2, 2, 2))
    second = dataclasses.replace(first, shares=(256, 768))
    times = StageTimes(kinds, 1e-3, 0.0, 1e-3, (0.0, 1e-3), (5e-3, 5e-3), 0.0)
    situation = Situation(ShareBounds(BATCH))
    situation.see(first, times.with_iteration(5e-3))
    situation.see(second, times.with_iteration(9e-3))
    assert situation.act(BACK) == first
    situation.see(first, times.with_iteration(5.2e-3))
    assert situation.act(BACK) == first
    situation.see(first, times.with_iteration(20e-3))
    situation.see(second, times.with_iteration(9e-3))
    assert situation.act(BACK) == second


def test_it_manages_a_simulated_platform(training, assignment):
    run = Managed(Learned(ShareBounds(BATCH), untrained()), assignment, iterations=4)
    training.run(run)
    assert len(run.history) == 4
    assert run.current != assignment


def test_a_network_is_kept_without_pickles(tmp_path: Path):
    network = untrained(prior=3.0)
    network.save(tmp_path, {"steps": 7})
    seen = np.random.default_rng(0).normal(size=NUM_OBSERVED).astype(np.float32)
    assert np.array_equal(Network.load(tmp_path).logits(seen), network.logits(seen))
    with pytest.raises(StoreError, match="holds no network of management that can be read"):
        Network.load(tmp_path / "none")
    manifest = tmp_path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 99'))
    (tmp_path / "weights.npz").unlink()  # what another version has for weights is not read
    with pytest.raises(StoreError, match="must be a3gnn-management of version 1, got a3gnn-management of version 99;"):
        Network.load(tmp_path)
    manifest.write_text("[]")
    with pytest.raises(StoreError, match="holds no network of management that can be read"):
        Network.load(tmp_path)
