"""The benchmark of graph servers: what is remote is counted right, and costs are those of the servers that ran."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partitioning.random_parts import random_parts
from a3gnn.sampling.sampler import NeighbourSampler
from benchmarks.graph_servers.__main__ import _measured, parser
from benchmarks.graph_servers.cost import remote_share


def test_one_part_asks_nobody(small_graph: Graph) -> None:
    assert remote_share(small_graph, np.zeros(2000, dtype=np.uint8), (5, 5), 64, 3) == 0


def test_the_share_is_that_of_expanded_nodes(small_graph: Graph) -> None:
    owners = random_parts(small_graph, 4, 0)
    assert 0.4 < remote_share(small_graph, owners, (15, 15), 64, 3) < 0.75  # a hop's seeds are of the own part
    sampler = NeighbourSampler(small_graph.indptr, small_graph.indices, (3,), seed=0)
    seeds = small_graph.train_ids[:10]
    assert sampler.sample(seeds, 0, 0).hop_sizes[-2] == len(seeds)
    assert remote_share(small_graph, owners, (3,), 64, 3) == 0  # seeds alone are expanded


@pytest.mark.slow
def test_costs_are_counted_where_they_arise(small_folder_graph: Graph, tmp_path: Path) -> None:
    sizes = {"servers": 2, "batch-size": 64, "hidden": 8, "batches": 3, "rounds": 1}
    given = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    options = parser().parse_args(
        [*given, "--fanouts", "3", "3", "--ways", "here", "servers", "servers, mode1, a fifth cached"]
    )
    found = _measured(small_folder_graph, "small", "random", tmp_path / "parts", options, Console(quiet=True))
    here, plain, cached = (costs[0] for costs in found["costs"].values())
    assert (here["requests"], here["received"]) == (0, 0)
    assert plain["requests"] == 2 * 3  # both servers, for two hops and the rows
    assert cached["received"] < plain["received"]
    assert plain["hits"] == 0 < cached["hits"]
