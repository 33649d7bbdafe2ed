from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from a3gnn.errors import GraphError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition, restrict_to_parts


def _cut(graph: Graph, parts: np.ndarray) -> float:
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return float((parts[targets] != parts[graph.indices]).mean())


@pytest.mark.parametrize("num_parts", [2, 7, 16])
def test_parts_are_balanced_and_cut_less_than_chance(small_graph: Graph, num_parts: int) -> None:
    parts = partition(small_graph, num_parts, seed=0)
    assert parts.dtype == np.int32
    sizes = np.bincount(parts, minlength=num_parts)
    assert len(sizes) == num_parts
    assert sizes.max() <= 1.1 * small_graph.num_nodes / num_parts
    shuffled = np.random.default_rng(0).permutation(parts)
    assert _cut(small_graph, parts) < 0.85 * _cut(small_graph, shuffled)


def test_one_part_is_the_whole_graph(small_graph: Graph) -> None:
    parts = partition(small_graph, 1)
    assert not parts.any()
    indptr, indices = restrict_to_parts(small_graph, parts)
    np.testing.assert_array_equal(indptr, small_graph.indptr)
    np.testing.assert_array_equal(indices, small_graph.indices)


def test_the_seed_decides(small_graph: Graph) -> None:
    zero, one = partition(small_graph, 8, seed=0), partition(small_graph, 8, seed=1)
    np.testing.assert_array_equal(zero, partition(small_graph, 8, seed=0))
    assert (zero != one).any()


def test_a_graph_on_disk_keeps_its_parts_and_gives_those_of_the_one_in_ram(
    small_graph: Graph, small_folder_graph: Graph
) -> None:
    parts = partition(small_folder_graph, 4, seed=3)
    np.testing.assert_array_equal(parts, partition(small_graph, 4, seed=3))
    kept = small_folder_graph.derived("parts-4-seed-3.npy")
    np.testing.assert_array_equal(np.load(kept), parts)
    np.save(kept, parts[::-1])
    np.testing.assert_array_equal(partition(small_folder_graph, 4, seed=3), parts[::-1])


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
    monkeypatch.setattr("a3gnn.graphs.partition._EDGES_A_PIECE", 7)  # below many degrees
    pieces = restrict_to_parts(small_graph, parts)
    np.testing.assert_array_equal(whole[0], pieces[0])
    np.testing.assert_array_equal(whole[1], pieces[1])


def test_parts_that_keep_no_edge_are_an_empty_adjacency(small_graph: Graph, tmp_path: Path) -> None:
    alone = np.arange(small_graph.num_nodes, dtype=np.int32)
    for graph in (small_graph, small_graph.save(tmp_path / "graph")):
        indptr, indices = restrict_to_parts(graph, alone)
        assert not indptr.any()
        assert (indices.dtype, len(indices)) == (np.int32, 0)


def test_a_directed_graph_with_self_loops_is_partitioned(tmp_path: Path) -> None:
    line = np.arange(40)
    masks = {f"{name}_mask": line % 3 == i for i, name in enumerate(("train", "val", "test"))}
    edges = np.stack([np.append(line[:-1], line), np.append(line[1:], line)])
    np.savez(tmp_path / "line.npz", edge_index=edges, x=np.zeros((40, 1), np.float32), y=line % 2, **masks)
    graph = Graph.load(tmp_path / "line.npz")
    assert _cut(graph, partition(graph, 2)) < 0.1


@pytest.mark.parametrize("num_parts", [0, 2001])
def test_impossible_part_counts_are_refused(small_graph: Graph, num_parts: int) -> None:
    with pytest.raises(GraphError, match=rf"num_partitions must be in \[1, 2000\].*got {num_parts}; 1 trains"):
        partition(small_graph, num_parts)


def test_a_folder_that_takes_no_files_is_said(tiny_graph: Graph, tmp_path: Path) -> None:
    graph = tiny_graph.save(tmp_path / "graph")
    graph.derived("").write_text("in the way")
    with pytest.raises(GraphError, match=r"parts-2-seed-0\.npy can't be written .*a3gnn graph convert"):
        partition(graph, 2)
