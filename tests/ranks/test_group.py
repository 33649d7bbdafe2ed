"""The group of torch.distributed: whose it is, and which errors mean a lost rank."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from a3gnn.errors import PeerLostError, UsageError
from a3gnn.launch import Launch
from a3gnn.ranks.group import _check_group, _told, joined
from a3gnn.training.rank_processes import Together

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")


@pytest.fixture
def group() -> Iterator[None]:
    """A group of this process alone, which somebody else has made."""
    from torch import distributed

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_a_group_that_is_there_must_be_that_of_torchrun(group):
    with pytest.raises(UsageError, match=r"rank 1 of 2, got rank 0 of 1"), joined(Launch(1, 2, 1, 2)):
        pass
    with joined(Launch(0, 1, 0, 1)) as ranks:
        ranks.sum(torch.zeros(1))
    assert torch.distributed.is_initialized()


def test_a_group_that_is_there_must_have_a_backend_for_the_host(group, monkeypatch):
    monkeypatch.setattr(torch.distributed, "get_backend_config", lambda: "cuda:nccl")
    with pytest.raises(UsageError, match="a backend for cpu, got cuda:nccl"):
        _check_group(Launch(0, 1, 0, 1), ["cpu", "cuda"])


@pytest.mark.parametrize(
    "text",
    [
        "[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:3011",
        "[../pair.cc:1] Read error [127.0.0.1]:30119: Connection reset by peer. This may be",
        "[../unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
        "Application timeout caused pair closure",
    ],
)
def test_a_lost_connection_is_a_lost_rank(text):
    with pytest.raises(PeerLostError, match="rank 1 lost another one"), _told(1):
        raise RuntimeError(text)


def test_other_errors_are_what_they_are():
    with pytest.raises(RuntimeError, match="preamble"), _told(1):
        raise RuntimeError("[../pair.cc:446] op.preamble.length <= op.nbytes. 8 vs 4")


def test_a_limit_is_cut_over_a_machines_ranks_and_said():
    ranks: Any = SimpleNamespace(rank=0, size=4, launch=Launch(0, 4, 0, 2))
    said: list[str] = []
    assert Together(ranks).limit(4 * 2**30, said.append) == 2 * 2**30
    assert said == ["the 2 ranks of a machine share the host memory limit of 4.00 GiB; each rank may use 2.00 GiB"]
    assert Together(ranks).limit(None, said.append) is None
    assert len(said) == 1
