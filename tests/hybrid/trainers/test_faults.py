"""A trainer that fails, or does not come back, at any stage: who it was is said, and the run goes on from there."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, TrainerError, TrainerStalledError
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.trainers.hybrid_trainer import HybridTrainer
from a3gnn.hybrid.trainers.opening import OpenRequest
from a3gnn.pipeline.watch import WatchedStage
from a3gnn.task import Task
from tests.hybrid.trainers.made import PATIENCE_S, all_have_ended, failing_at, hybrid, threads_of_trainers

TASK = Task(model="gin", hidden_channels=8, fanouts=(4, 3))
CONFIG = TrainConfig(batch_size=32)
#: Seconds that a trainer may take: far more than stages of so small a graph do.
STALL_S = 1.5
#: Seconds after which one that stalls comes back, which is far later than it must be told.
BACK_S = 110.0
SAMPLING: Any = ("whole", "independent")


def run(graph: Graph, out: Path, config: TrainConfig = CONFIG, **others: Any) -> Any:
    given: dict[str, Any] = {"trainers": "cpu:1,cpu:1", "trainer_shares": (20, 12), "trainer_stall": PATIENCE_S}
    given |= {"task": TASK, "epochs": 3, "out": out, "notify": lambda line: None}
    return train(config, graph, **given | others)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = torch.load(folder / "model.pt", weights_only=True)
    return state


@pytest.fixture(scope="module")
def undisturbed(tiny_folder_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The weights of runs in which nothing fails."""
    found = {}
    for sampling in SAMPLING:
        folder = tmp_path_factory.mktemp("runs") / sampling
        run(tiny_folder_graph, folder, trainer_sampling=sampling)
        found[sampling] = weights(folder)
    return found


@pytest.fixture
def disturb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[HybridTrainer], None]], None]:
    """Returns what has the next trainers changed before they train."""

    def change(by: Callable[[HybridTrainer], None]) -> None:
        real = OpenRequest.trainer

        def opened(one: OpenRequest, options: Any) -> Any:
            made = real(one, options)
            by(made)  # type: ignore[arg-type]
            return made

        monkeypatch.setattr(OpenRequest, "trainer", opened)

    return change


def goes_on(graph: Graph, folder: Path, sampling: Any, expected: dict[str, torch.Tensor], monkeypatch: Any) -> None:
    """Checks that the run in `folder` ends with the bits of one in which nothing failed."""
    monkeypatch.undo()
    assert not (folder / "model.pt").exists()
    run(graph, folder, trainer_sampling=sampling, resume=True)
    found = weights(folder)
    assert all(torch.equal(found[name], value) for name, value in expected.items())


CASES = [
    pytest.param(stage, trainer, sampling, id=f"{stage}-{'all' if trainer is None else trainer}")
    for stage in get_args(WatchedStage)
    for trainer in (0, 1)
    for sampling in SAMPLING[stage == "sampling" :][:1]
] + [pytest.param("sampling", None, "whole", id="sampling-all")]


#: Who is how far ahead: by the mode, or by stage.
AHEAD: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"parallel_mode": "sequential"}, {}),
    ({"parallel_mode": "mode1", "num_workers": 2}, {}),
    ({}, {"prefetch": (1, 1, 1)}),
    ({}, {"prefetch": (2, 0, 0)}),
]


@pytest.mark.parametrize(
    ("mode", "ahead"),
    [
        pytest.param(*ahead, id=name, marks=[] if name in ("sequential", "1,1,1") else [pytest.mark.weekly])
        for ahead, name in zip(AHEAD, ("sequential", "mode1", "1,1,1", "2,0,0"), strict=True)
    ],
)
@pytest.mark.parametrize(("stage", "trainer", "sampling"), CASES)
def test_an_exception_is_named_and_the_run_goes_on_bit_identically(
    stage, trainer, sampling, mode, ahead, tiny_folder_graph, tmp_path, disturb, undisturbed, monkeypatch
):
    failed_at = []

    def fail() -> None:
        failed_at.append(time.monotonic())
        raise ValueError("a bit fell over")

    disturb(failing_at(stage, trainer, fail))
    whose = "all trainers" if trainer is None else rf"trainer {trainer} \(cpu:1\)"
    told = (
        rf"{stage} of {whose} for mini-batch 2 of epoch 2 failed: ValueError: a bit fell over.*is saved after 1 epoch"
    )
    with pytest.raises(TrainerError, match=told):
        run(tiny_folder_graph, tmp_path / "run", CONFIG.replace(**mode), trainer_sampling=sampling, **ahead)
    assert time.monotonic() - failed_at[0] < PATIENCE_S  # others are not waited for until they are late
    assert not threads_of_trainers()
    goes_on(tiny_folder_graph, tmp_path / "run", sampling, undisturbed[sampling], monkeypatch)


#: A stall takes seconds to be one. In the set, one trainer stalls at each stage.
STALLS = [
    case if 1 not in case.values else pytest.param(*case.values, id=case.id, marks=pytest.mark.weekly) for case in CASES
]


@pytest.mark.parametrize(("stage", "trainer", "sampling"), STALLS)
def test_one_that_stalls_is_named_and_the_run_goes_on_bit_identically(
    stage, trainer, sampling, tiny_folder_graph, tmp_path, disturb, undisturbed, monkeypatch
):
    release, came_back = threading.Event(), []

    def stall() -> None:
        came_back.append(release.wait(BACK_S))

    disturb(failing_at(stage, trainer, stall))
    whose = "all trainers" if trainer is None else rf"trainer {trainer} \(cpu:1\)"
    told = rf"{stage} of {whose} for mini-batch 2 of epoch 2 must take .* has not finished.*is saved after 1 epoch"
    try:
        with pytest.raises(TrainerStalledError, match=told):
            run(tiny_folder_graph, tmp_path / "run", trainer_sampling=sampling, trainer_stall=STALL_S)
        assert not came_back
        goes_on(tiny_folder_graph, tmp_path / "run", sampling, undisturbed[sampling], monkeypatch)
    finally:
        release.set()
    assert all_have_ended()


@pytest.mark.parametrize("stage", ["loading", "transfer"])
@pytest.mark.parametrize(("mode", "ahead"), AHEAD[1:3], ids=["mode1", "1,1,1"])
def test_a_worker_that_stalls_is_named_too(
    stage, mode, ahead, tiny_folder_graph, tmp_path, disturb, undisturbed, monkeypatch
):
    release = threading.Event()
    disturb(failing_at(stage, 1, lambda: release.wait(BACK_S) and None))
    told = rf"{stage} of trainer 1 .* has not finished.*is saved after"
    try:
        with pytest.raises(TrainerStalledError, match=told):
            run(tiny_folder_graph, tmp_path / "run", CONFIG.replace(**mode), trainer_stall=STALL_S, **ahead)
        goes_on(tiny_folder_graph, tmp_path / "run", "whole", undisturbed["whole"], monkeypatch)
    finally:
        release.set()
    assert all_have_ended()


def torn(place: int, call: int) -> Callable[[HybridTrainer], None]:
    """Returns what has the optimizer of a trainer fail with half of its weights changed."""

    def change(made: HybridTrainer) -> None:
        optimizer: Any = made._replicas[place].optimizer
        step, calls = optimizer.step, count()

        def half() -> None:
            if next(calls) == call:
                optimizer.param_groups[0]["params"][0].data.add_(1.0)
                raise ValueError("half done")
            step()

        optimizer.step = half

    return change


@pytest.mark.parametrize("place", [0, 1])
def test_an_update_that_fails_half_way_is_not_what_is_saved(
    place, tiny_folder_graph, tmp_path, disturb, undisturbed, monkeypatch
):
    disturb(torn(place, 7))
    with pytest.raises(TrainerError, match=rf"update of trainer {place} \(cpu:1\).*half done.*is saved after"):
        run(tiny_folder_graph, tmp_path / "run")
    goes_on(tiny_folder_graph, tmp_path / "run", "whole", undisturbed["whole"], monkeypatch)


def test_where_no_weights_are_whole_the_last_checkpoint_is_kept(tiny_folder_graph, tmp_path, disturb, monkeypatch):
    alone: dict[str, Any] = {"trainers": "cpu:1", "trainer_shares": None}
    run(tiny_folder_graph, tmp_path / "whole", **alone)
    disturb(torn(0, 7))
    with pytest.raises(A3GNNError, match=r"no trainer's weights are whole.*continue from it by resume=True") as caught:
        run(tiny_folder_graph, tmp_path / "run", **alone)
    assert not isinstance(caught.value, TrainerError)
    monkeypatch.undo()
    run(tiny_folder_graph, tmp_path / "run", resume=True, **alone)
    expected = weights(tmp_path / "whole")
    assert all(torch.equal(value, expected[name]) for name, value in weights(tmp_path / "run").items())


def test_an_interrupt_ends_all_trainers_and_the_run_goes_on(tiny_folder_graph, tmp_path, undisturbed, monkeypatch):
    def interrupted(line: str) -> None:
        if line.startswith("epoch"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="is saved after 1 epoch and 0 mini-batches"):
        run(tiny_folder_graph, tmp_path / "run", notify=interrupted)
    assert not threads_of_trainers()
    goes_on(tiny_folder_graph, tmp_path / "run", "whole", undisturbed["whole"], monkeypatch)


def test_a_signal_within_a_mini_batch_ends_all_trainers_after_it(
    tiny_folder_graph, tmp_path, disturb, undisturbed, monkeypatch
):
    disturb(failing_at("propagation", 1, lambda: signal.raise_signal(signal.SIGINT)))
    with pytest.raises(KeyboardInterrupt, match="is saved after 1 epoch and 3 mini-batches"):
        run(tiny_folder_graph, tmp_path / "run")
    assert not threads_of_trainers()
    goes_on(tiny_folder_graph, tmp_path / "run", "whole", undisturbed["whole"], monkeypatch)


def test_after_a_stall_the_same_trainers_train_no_more(tiny_graph):
    release = threading.Event()
    try:
        with hybrid(tiny_graph, CONFIG, TASK, (20, 12), stall_s=1.0) as trainer:
            failing_at("propagation", 1, lambda: release.wait(BACK_S) and None)(trainer)
            list(trainer.steps(0))
            with pytest.raises(TrainerStalledError):
                list(trainer.steps(1))
            with pytest.raises(A3GNNError, match="begin in a new process"):
                list(trainer.steps(1))
    finally:
        release.set()
