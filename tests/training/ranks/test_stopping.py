"""All who train shares of the same mini-batches stop after the same one."""

from __future__ import annotations

import signal
from typing import Any

import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import MemoryLimitError, PeerLostError
from a3gnn.ranks.peers import Member
from a3gnn.sampling.share import Shares
from a3gnn.task import Task
from a3gnn.training.fit import Interrupt
from a3gnn.training.trainer import Trainer, TrainerOptions
from tests.training.ranks.threads import BUILDING, ThreadRanks, together

TASK, CONFIG = Task(model="gin", hidden_channels=8, fanouts=(3, 2)), TrainConfig(batch_size=30)


def trainer_of(graph: Any, ranks: ThreadRanks, options: TrainerOptions = TrainerOptions()) -> Trainer:
    with BUILDING:
        return Trainer(graph, CONFIG, TASK, options, member=Member(Shares.equal(ranks.rank, ranks.size), ranks))


def test_an_interrupt_of_one_stops_all_after_the_same_mini_batch(tiny_graph):
    def work(ranks: ThreadRanks) -> int:
        done = 0

        def train(trainer: Trainer) -> None:
            nonlocal done
            for _ in trainer.steps(0):
                done += 1

        with (
            trainer_of(tiny_graph, ranks, TrainerOptions(should_stop=lambda: ranks.rank == 1 and done == 2)) as trainer,
            pytest.raises(KeyboardInterrupt),
        ):
            train(trainer)
        return done

    assert together(2, work) == [3, 3]


@pytest.mark.parametrize("over", [0, 1])
def test_a_passed_memory_limit_of_one_stops_all(over, tiny_graph):
    def work(ranks: ThreadRanks) -> str:
        limit = 1 if ranks.rank == over else None
        with (
            trainer_of(tiny_graph, ranks, TrainerOptions(host_memory_limit=limit)) as trainer,
            pytest.raises(MemoryLimitError) as caught,
        ):
            list(trainer.steps(0))
        return str(caught.value)

    found = together(2, work)
    assert "must keep to" in found[over]
    assert "another rank exceeded" in found[1 - over]


class Lost(ThreadRanks):
    """Loses the others when gradients are summed, after the statistics were."""

    @property
    def size(self) -> int:
        return 2

    def sum(self, values: torch.Tensor) -> None:
        if values.numel() > 100:
            raise PeerLostError("gone")


def test_a_lost_peer_leaves_the_state_after_the_mini_batch_before(tiny_graph):
    with trainer_of(tiny_graph, Lost(None, 0)) as trainer:  # type: ignore[arg-type]
        before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
        with pytest.raises(PeerLostError):
            list(trainer.steps(0))
        assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())


def test_signals_are_noted_where_all_have_to_agree():
    with Interrupt(agreed=True) as interrupt:
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        interrupt.check_step()
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()  # in evaluation nobody has to agree
    assert interrupt.noted
    assert not interrupt.forced
