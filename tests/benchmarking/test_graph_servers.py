"""Servers of parts: together they sample what one process that holds all rows would."""

from collections.abc import Iterator
from itertools import count
from multiprocessing import Pipe
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partitioning.random_parts import random_parts
from a3gnn.sampling.sampler import NeighbourSampler
from benchmarks.graph_servers.epoch import Work, sample_epoch
from benchmarks.graph_servers.server import GraphServer

NUM_PARTS = 3


@pytest.fixture
def served(small_graph: Graph) -> Iterator[list[GraphServer]]:
    """A server a part of `small_graph`, each answering the others; they take all in-neighbours of two hops."""
    parts = random_parts(small_graph, NUM_PARTS, 0)
    everyone = range(NUM_PARTS)
    links = {(asker, asked): Pipe() for asker in everyone for asked in everyone if asker != asked}
    made, answering = [], []
    for rank in everyone:
        asks = {asked: ends[0] for (asker, asked), ends in links.items() if asker == rank}
        made.append(GraphServer(small_graph, parts, rank, asks, (-1, -1), seed=0))
        answers = [ends[1] for (_, asked), ends in links.items() if asked == rank]
        answering += [Thread(target=made[-1].serve, args=(link,)) for link in answers]
    for thread in answering:
        thread.start()
    yield made
    for server in made:
        server.hang_up()
    for thread in answering:
        thread.join(10)
        assert not thread.is_alive()


def edges(n_id: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> set[tuple[int, int]]:
    """Returns the edges by global ids."""
    return set(zip(n_id[sources].tolist(), n_id[targets].tolist(), strict=True))


def test_whole_neighbourhoods_are_those_of_one_process(small_graph: Graph, served: list[GraphServer]) -> None:
    alone = NeighbourSampler(small_graph.indptr, small_graph.indices, (-1, -1), seed=0)
    parts = random_parts(small_graph, NUM_PARTS, 0)
    batches = count()
    for rank, server in enumerate(served):
        seeds = small_graph.train_ids[parts[small_graph.train_ids] == rank]
        for start in range(0, len(seeds), 16):
            chosen = seeds[start : start + 16]
            n_id, (sources, targets) = server.sample(chosen, next(batches))
            expected = alone.sample(chosen, 0, 0)
            rows = np.repeat(np.arange(len(expected.indptr) - 1), np.diff(expected.indptr))
            assert n_id[: len(chosen)].tolist() == chosen.tolist()
            assert sorted(n_id) == sorted(expected.n_id)
            assert edges(n_id, sources, targets) == edges(expected.n_id, expected.indices, rows)
            assert len(sources) == expected.num_edges
        assert 0 < server.traffic.remote < server.traffic.expanded


def test_an_epoch_samples_every_train_node_and_counts_what_it_asked(small_folder_graph: Graph, tmp_path: Path) -> None:
    assert small_folder_graph.folder is not None
    np.save(tmp_path / "parts.npy", random_parts(small_folder_graph, 2, 0))
    work = Work(small_folder_graph.folder, tmp_path / "parts.npy", 2, 16, (3, 2), seed=0)
    parts = np.load(work.parts)[small_folder_graph.train_ids]

    found = sample_epoch(work)

    assert found.mini_batches == sum(-(-int((parts == part).sum()) // 16) for part in range(2))
    assert 0.2 < found.remote < 0.8
    assert found.bytes_sent > 0
    assert found.seconds > 0


def test_one_server_asks_nobody(small_folder_graph: Graph, tmp_path: Path) -> None:
    assert small_folder_graph.folder is not None
    np.save(tmp_path / "parts.npy", np.zeros(small_folder_graph.num_nodes, dtype=np.int32))
    found = sample_epoch(Work(small_folder_graph.folder, tmp_path / "parts.npy", 1, 64, (3, 2), seed=0))
    assert (found.remote, found.bytes_sent) == (0, 0)
