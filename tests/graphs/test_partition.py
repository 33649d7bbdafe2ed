from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from a3gnn.config import PARTITIONERS, Partitioner
from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition, partition_seconds, restrict_to_parts
from tests.graphs.metis_memory import said_without_memory


def _cut(graph: Graph, parts: np.ndarray) -> float:
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return float((parts[targets] != parts[graph.indices]).mean())


@pytest.fixture(scope="module")
def cliques(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A ring of 120 communities of 25 nodes: 95 % of the 30,000 edges stay within one, others go to the next."""
    rng = np.random.default_rng(7)
    community, members = 120, 25
    nodes = community * members
    sources = rng.integers(nodes, size=15_000)
    targets = sources - sources % members + rng.integers(members, size=len(sources))
    away = rng.random(len(sources)) < 0.05
    targets[away] = (targets[away] + members) % nodes
    edges = np.stack([sources, targets])[:, sources != targets]
    split = rng.choice(3, size=nodes, p=[0.2, 0.4, 0.4])
    masks = {f"{name}_mask": split == i for i, name in enumerate(("train", "val", "test"))}
    path = tmp_path_factory.mktemp("cliques") / "cliques.npz"
    both_ways = np.concatenate([edges, edges[::-1]], axis=1)
    np.savez(path, edge_index=both_ways, x=np.zeros((nodes, 1), np.float32), y=np.arange(nodes) % 2, **masks)
    return Graph.load(path)


@pytest.mark.parametrize("num_parts", [2, 7, 16])
def test_metis_parts_are_balanced_and_cut_less_than_chance(small_graph: Graph, num_parts: int) -> None:
    parts = partition(small_graph, num_parts, seed=0)
    sizes = np.bincount(parts, minlength=num_parts)
    assert sizes.max() <= 1.1 * small_graph.num_nodes / num_parts
    shuffled = np.random.default_rng(0).permutation(parts)
    assert _cut(small_graph, parts) < 0.85 * _cut(small_graph, shuffled)


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("num_parts", [2, 5, 16])
def test_every_node_has_a_part_and_parts_are_balanced(cliques: Graph, partitioner: Partitioner, num_parts: int) -> None:
    parts = partition(cliques, num_parts, seed=4, partitioner=partitioner)
    assert (parts.dtype, parts.shape) == (np.int32, (cliques.num_nodes,))
    sizes = np.bincount(parts, minlength=num_parts)
    assert len(sizes) == num_parts
    assert sizes.max() <= 1.15 * sizes.mean()
    trains = np.bincount(parts[cliques.train_ids], minlength=num_parts)
    if partitioner != "metis":  # which knows nothing of train nodes
        assert trains.max() <= 1.15 * trains.mean()
    if partitioner == "random":
        assert np.ptp(sizes) <= 1
        assert np.ptp(trains) <= 1


@pytest.mark.parametrize("num_parts", [2, 8])
def test_blocks_keep_planted_communities_together(cliques: Graph, num_parts: int) -> None:
    by_chance = _cut(cliques, partition(cliques, num_parts, partitioner="random"))
    assert by_chance == pytest.approx(1 - 1 / num_parts, abs=0.02)
    assert _cut(cliques, partition(cliques, num_parts, partitioner="blocks")) < 0.3 * by_chance


def test_one_part_is_the_whole_graph(small_graph: Graph) -> None:
    parts = partition(small_graph, 1)
    assert not parts.any()
    indptr, indices = restrict_to_parts(small_graph, parts)
    np.testing.assert_array_equal(indptr, small_graph.indptr)
    np.testing.assert_array_equal(indices, small_graph.indices)


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_the_seed_decides(small_graph: Graph, partitioner: Partitioner) -> None:
    zero, one = (partition(small_graph, 8, seed, partitioner) for seed in (0, 1))
    np.testing.assert_array_equal(zero, partition(small_graph, 8, 0, partitioner))
    assert (zero != one).any()


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_a_graph_on_disk_keeps_its_parts_and_gives_those_of_the_one_in_ram(
    small_graph: Graph, small_folder_graph: Graph, partitioner: Partitioner
) -> None:
    parts = partition(small_folder_graph, 4, 3, partitioner)
    np.testing.assert_array_equal(parts, partition(small_graph, 4, 3, partitioner))
    suffix = {"metis": "", "random": "-random", "blocks": "-blocks"}[partitioner]
    kept = small_folder_graph.derived(f"parts-4-seed-3{suffix}.npy")
    np.testing.assert_array_equal(np.load(kept), parts)
    np.save(kept, parts[::-1])
    np.testing.assert_array_equal(partition(small_folder_graph, 4, 3, partitioner), parts[::-1])


def test_an_unknown_partitioner_is_refused_with_the_nearest(small_graph: Graph) -> None:
    with pytest.raises(UsageError, match=r"partitioner must be one of blocks, metis, random, got 'block'.*'blocks'"):
        partition(small_graph, 1, partitioner="block")  # type: ignore[arg-type]


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space, which other systems don't")
def test_metis_without_memory_says_what_to_do() -> None:
    said = said_without_memory("from a3gnn.graphs.partition import partition", "partition(graph, 2)")
    assert "MemoryLimitError: METIS needs several copies of the" in said
    assert "partitioner 'blocks' needs" in said


@pytest.mark.parametrize("partitioner", ["random", "blocks"])
def test_as_many_parts_as_nodes_have_one_node_each(tiny_graph: Graph, partitioner: Partitioner) -> None:
    parts = partition(tiny_graph, tiny_graph.num_nodes, partitioner=partitioner)
    np.testing.assert_array_equal(np.sort(parts), np.arange(tiny_graph.num_nodes))


def test_restriction_keeps_exactly_the_edges_within_parts(small_graph: Graph, small_folder_graph: Graph) -> None:
    parts = np.random.default_rng(1).integers(3, size=small_graph.num_nodes).astype(np.int32)
    for graph in (small_graph, small_folder_graph, small_folder_graph):  # the last one reads what the second wrote
        indptr, indices = restrict_to_parts(graph, parts)
        assert (indptr.dtype, indices.dtype) == (np.int64, np.int32)
        for v in range(graph.num_nodes):
            row = graph.indices[graph.indptr[v] : graph.indptr[v + 1]]
            np.testing.assert_array_equal(indices[indptr[v] : indptr[v + 1]], row[parts[row] == parts[v]])


def test_restriction_in_pieces_equals_that_in_one(small_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = partition(small_graph, 5)
    whole = restrict_to_parts(small_graph, parts)
    monkeypatch.setattr("a3gnn.graphs.partition.PIECE", 7)  # below many degrees
    pieces = restrict_to_parts(small_graph, parts)
    np.testing.assert_array_equal(whole[0], pieces[0])
    np.testing.assert_array_equal(whole[1], pieces[1])


def test_parts_that_keep_no_edge_are_an_empty_adjacency(small_graph: Graph, tmp_path: Path) -> None:
    alone = np.arange(small_graph.num_nodes, dtype=np.int32)
    for graph in (small_graph, small_graph.save(tmp_path / "graph")):
        indptr, indices = restrict_to_parts(graph, alone)
        assert not indptr.any()
        assert (indices.dtype, len(indices)) == (np.int32, 0)


@pytest.mark.parametrize("partitioner", ["metis", "blocks"])
def test_a_directed_graph_with_self_loops_is_partitioned(tmp_path: Path, partitioner: Partitioner) -> None:
    line = np.arange(400)
    masks = {f"{name}_mask": line % 3 == i for i, name in enumerate(("train", "val", "test"))}
    edges = np.stack([np.append(line[:-1], line), np.append(line[1:], line)])
    np.savez(tmp_path / "line.npz", edge_index=edges, x=np.zeros((400, 1), np.float32), y=line % 2, **masks)
    graph = Graph.load(tmp_path / "line.npz")
    parts = partition(graph, 2, partitioner=partitioner)
    assert np.bincount(parts).max() <= 1.1 * 200
    assert _cut(graph, parts) < {"metis": 0.1, "blocks": 0.25}[partitioner]


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("num_parts", [0, 2001])
def test_impossible_part_counts_are_refused(small_graph: Graph, num_parts: int, partitioner: Partitioner) -> None:
    with pytest.raises(GraphError, match=rf"num_partitions must be in \[1, 2000\].*got {num_parts}; 1 trains"):
        partition(small_graph, num_parts, partitioner=partitioner)


def test_a_folder_that_takes_no_files_is_said(tiny_graph: Graph, tmp_path: Path) -> None:
    graph = tiny_graph.save(tmp_path / "graph")
    graph.derived("").write_text("in the way")
    with pytest.raises(GraphError, match=r"parts-2-seed-0\.npy can't be written .*a3gnn graph convert"):
        partition(graph, 2)


def test_the_seconds_of_making_parts_are_kept_beside_them(small_graph: Graph, tmp_path: Path) -> None:
    graph = small_graph.save(tmp_path / "graph")
    made = partition(graph, 3, partitioner="blocks")
    rows = restrict_to_parts(graph, made)
    first = partition_seconds(graph, 3, partitioner="blocks")
    assert first > 0
    notes = sorted((tmp_path / "graph" / "derived").glob("seconds-*.txt"))
    assert [note.stem.split("-")[1] for note in notes] == ["parts", "within"]
    assert first == pytest.approx(sum(float(note.read_text()) for note in notes))
    notes[0].write_text("17.5")  # what was noted counts, however fast it would be now
    assert partition_seconds(graph, 3, partitioner="blocks") > 17.5
    for note in notes:
        note.unlink()  # as an older a3gnn left them
    again = partition_seconds(graph, 3, partitioner="blocks")
    assert 0 < again < 17.5
    assert partition_seconds(graph, 3, partitioner="blocks") == again
    np.testing.assert_array_equal(partition(graph, 3, partitioner="blocks"), made)
    np.testing.assert_array_equal(restrict_to_parts(graph, made)[1], rows[1])
