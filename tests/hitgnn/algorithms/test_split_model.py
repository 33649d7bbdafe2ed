"""Features that are split by column: gradients are those of one process, and every byte is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from a3gnn.errors import UsageError
from a3gnn.hitgnn.algorithms.p3 import ColumnPart, InputStructure, Moved, SplitModel, SplitTraffic, share_structures
from a3gnn.sampling.share import cut
from tests.hitgnn.algorithms import split_cases
from tests.hitgnn.algorithms.split_cases import (
    SEEDS,
    TASKS,
    WIDTH,
    Found,
    blocks,
    by_ranks,
    check,
    minibatches,
    model_of,
)
from tests.training.ranks.launched import run_loop
from tests.training.ranks.threads import BUILDING, Board, ThreadRanks, together

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")


@pytest.mark.parametrize("ranks", SEEDS)
@pytest.mark.parametrize("case", TASKS)
def test_gradients_and_traffic_are_those_of_one_process(case, ranks, monkeypatch):
    def building(task: Any) -> Any:
        with BUILDING:
            return model_of(task)

    monkeypatch.setattr(split_cases, "model_of", building)
    first, *others = together(ranks, lambda one: by_ranks(one, case))
    check(first, case, ranks)
    for other in others:  # every rank can give the whole model, of the same bits
        assert all(torch.equal(value, first.weights[name]) for name, value in other.weights.items())


@pytest.mark.weekly  # threads have all cases above, test_equality real ranks
@pytest.mark.slow
def test_real_processes_equal_one(tmp_path):
    from tests.hitgnn.algorithms import split_ranks

    run_loop(Path(split_ranks.__file__), tmp_path, processes=4)
    for ranks in SEEDS:
        found = torch.load(tmp_path / f"{ranks}.pt", weights_only=True)
        assert found.keys() == TASKS.keys()
        for case, one in found.items():
            check(Found(*one), case, ranks)


def alone() -> ThreadRanks:
    return ThreadRanks(Board(1), 0)


def test_one_rank_has_all_columns_and_sends_nothing():
    task = TASKS["sage"]
    (whole, _), *_ = minibatches(task.fanouts, 2)
    x = torch.rand(whole.num_nodes, WIDTH, dtype=torch.float64)
    model, expected = SplitModel(model_of(task), alone(), (0, WIDTH)), model_of(task)
    every = blocks(whole, task)
    found = model([ColumnPart(every[0], x)], every[1:], seed=5)
    assert torch.allclose(found, expected(x, every, seed=5, dtype=torch.float64), rtol=0, atol=1e-12)
    assert model.traffic == SplitTraffic()


def test_a_rank_takes_its_columns_of_a_whole_state():
    def work(ranks: ThreadRanks) -> Any:
        with BUILDING:
            given, fresh = model_of(TASKS["gatv2"]), model_of(TASKS["gatv2"])
        state = {name: value + 1 for name, value in given.state_dict().items()}
        model = SplitModel(fresh, ranks, ((4, WIDTH), (0, 4))[ranks.rank])  # in any order
        model.load_whole_state(state)
        assert model.model.state_dict()["convs.0.lin_l.weight"].shape == (8, (WIDTH - 4, 4)[ranks.rank])
        whole = model.whole_state()
        return [bool(torch.equal(whole[name], value)) for name, value in state.items()]

    assert all(all(one) for one in together(2, work))


def test_an_optimizers_moments_become_whole():
    def work(ranks: ThreadRanks) -> Any:
        columns = ((0, 6), (6, WIDTH))[ranks.rank]
        with BUILDING:
            built = model_of(TASKS["sage"])
        model = SplitModel(built, ranks, columns)
        moments = torch.arange(8.0 * WIDTH).view(8, WIDTH)
        return model.whole(moments[:, slice(*columns)]).tolist() == moments.tolist()

    assert together(2, work) == [True, True]


@pytest.mark.parametrize(
    "columns",
    [[(0, 6), (7, 13)], [(0, 7), (6, 13)], [(0, 13), (13, 13)], [(0, 6), (6, 12)], [(1, 6), (6, 13)]],
)
def test_columns_must_be_all_each_once(columns):
    def work(ranks: ThreadRanks) -> Any:
        with BUILDING:
            built = model_of(TASKS["sage"])
        model = SplitModel(built, ranks, columns[ranks.rank])
        with pytest.raises(UsageError, match="each of 13 columns of the features must be on one of 2 ranks"):
            model([None, None])

    together(2, work)


def test_parts_are_checked():
    task = TASKS["sage"]
    (whole, _), *_ = minibatches(task.fanouts, 2)
    model, every = SplitModel(model_of(task), alone(), (0, WIDTH)), blocks(whole, task)
    with pytest.raises(UsageError, match=r"an entry for each of 1 ranks, got 0"):
        model([])
    with pytest.raises(
        UsageError, match=r"columns 0 to 13 of the features, 13 in all, got 12 columns; give it x\[:, 0:13\]"
    ):
        model([ColumnPart(every[0], torch.zeros(whole.num_nodes, 12, dtype=torch.float64))], every[1:])
    with pytest.raises(UsageError, match="must be whole"):
        InputStructure.of(cut(whole, 0, 1))


def test_structures_come_as_they_were_sent():
    batches = minibatches((5, 3), 3)[1]  # one rank of three has a mini-batch

    def work(ranks: ThreadRanks) -> Any:
        own = batches[ranks.rank]
        return share_structures(ranks, None if own is None else InputStructure.of(own), Moved())

    for found in together(3, work):
        for one, sent in zip(found, batches, strict=True):
            assert (one is None) == (sent is None)
            if sent is not None:
                expected = InputStructure.of(sent)
                assert all((left == right).all() for left, right in zip(one, expected, strict=True))
                assert found[1].n_id.dtype == sent.n_id.dtype
