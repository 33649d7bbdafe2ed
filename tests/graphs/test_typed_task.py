"""Graphs with node types as tasks: what is read, what is refused, and that folders and specs lead back to them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.as_graph import as_graph, spec_of
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader


def papers(seed: int = 0, **changes: Any) -> HeteroData:
    """Returns authors without features who write papers that cite papers, some of them twice."""
    rng = torch.Generator().manual_seed(seed)
    data = HeteroData()
    data["author"].num_nodes = 7
    data["paper"].x = torch.randn(30, 4, generator=rng)
    data["paper"].y = torch.arange(30) % 3
    data["topic"].x = torch.eye(5).to_sparse_csr()
    for relation, ends in {("author", "writes", "paper"): (7, 30), ("paper", "cites", "paper"): (30, 30)}.items():
        edges = torch.stack([torch.randint(end, (50,), generator=rng) for end in ends])
        data[relation].edge_index = torch.cat([edges, edges[:, :3]], dim=1)
    data["paper", "rev_writes", "author"].edge_index = data["author", "writes", "paper"].edge_index.flip(0)
    data["topic", "of", "paper"].edge_index = torch.stack([torch.arange(30) % 5, torch.arange(30)])
    data["paper", "rev_of", "topic"].edge_index = data["topic", "of", "paper"].edge_index.flip(0)
    for (kind, name), value in changes.items():
        data[kind][name] = value
    return data


def pairs_of(graph: Graph, relation: tuple[str, str, str]) -> set[tuple[int, int]]:
    """Returns the edges of a relation, ids within its types, from the graph's rows."""
    assert graph.types is not None
    schema = graph.types.schema
    place = [tuple(one) for one in schema.relations].index(relation)
    targets = np.arange(schema.counts[relation[2]])
    rows, first = schema.rows(place, targets), schema.first_node(relation[0])
    return {
        (int(source) - first, int(target))
        for target, row in zip(targets, rows, strict=True)
        for source in graph.indices[graph.types.rows[row] : graph.types.rows[row + 1]]
    }


def test_each_relation_has_its_own_edges_once() -> None:
    data = papers()
    graph = Graph.from_pyg(data)
    assert graph.types is not None
    assert graph.types.for_model.in_channels == {"paper": 4, "topic": 5}
    assert graph.types.for_model.metadata[0] == ["author", "paper", "topic"]
    assert (graph.num_nodes, graph.num_features, graph.num_classes, graph.target_type) == (42, 5, 3, "paper")
    for relation in data.edge_types:
        assert pairs_of(graph, relation) == {(int(s), int(t)) for s, t in data[relation].edge_index.T}
    assert any("duplicates" in note for note in graph.notes)
    assert np.array_equal(graph.labels[7:37], data["paper"].y.numpy())
    assert (graph.labels[:7] == -1).all()
    assert (graph.labels[37:] == -1).all()
    split = [graph.train_ids, graph.val_ids, graph.test_ids]
    assert np.array_equal(np.sort(np.concatenate(split)), np.arange(7, 37))
    degrees = sum(
        np.bincount(data[one].edge_index.unique(dim=1)[1] + 7, minlength=42)
        for one in data.edge_types
        if one[2] == "paper"
    )
    assert np.array_equal(np.diff(graph.indptr)[7:37], degrees[7:37])


def test_files_get_reverse_relations_and_objects_do_not(tmp_path: Path) -> None:
    data = papers()
    torch.save(data, tmp_path / "papers.pt")
    given, read = Graph.from_pyg(data), Graph.load(tmp_path / "papers.pt")
    assert given.types is not None
    assert read.types is not None
    added = {tuple(one) for one in read.types.schema.relations} - {tuple(one) for one in given.types.schema.relations}
    assert added == {("paper", "rev_cites", "paper")}
    for source, name, target in added:
        back = {(t, s) for s, t in pairs_of(read, (target, name.removeprefix("rev_"), source))}
        assert pairs_of(read, (source, name, target)) == back
    assert any("without a reverse" in note for note in read.notes)


def test_folders_copies_specs_and_pickles_are_the_same_graph(tmp_path: Path) -> None:
    torch.save(papers(), tmp_path / "papers.pt")
    spec = f"target:paper:{tmp_path / 'papers.pt'}"
    graph = Graph.load(spec)
    for other in (
        graph.save(tmp_path / "folder"),
        Graph.load(tmp_path / "folder"),
        graph.on_disk(),
        Graph.load(spec),  # from the copy in the cache
        Graph.load(spec_of(tmp_path / "papers.pt", graph)),
        pickle.loads(pickle.dumps(graph.on_disk())),
    ):
        assert (other.fingerprint, other.notes) == (graph.fingerprint, graph.notes)
        assert other.content_fingerprint() == graph.fingerprint
        assert other.types is not None
        assert graph.types is not None
        assert other.types.to_dict() == graph.types.to_dict()
        for name, array in graph.arrays().items():
            assert np.array_equal(other.arrays()[name], array)
    known = graph.characteristics()
    assert (known.relations, known.num_edges, known.num_features) == (6, graph.num_edges, 5)
    assert Graph.from_pyg(papers(1)).fingerprint != Graph.from_pyg(papers()).fingerprint


def test_a_split_is_of_the_target_type(tmp_path: Path) -> None:
    torch.save(papers(), tmp_path / "papers.pt")
    graph = Graph.load(f"split:0.5,0.2,0.1:3:target:paper:{tmp_path / 'papers.pt'}")
    assert [len(one) for one in (graph.train_ids, graph.val_ids, graph.test_ids)] == [15, 6, 3]
    assert graph.resplit("0.6,0.2,0.2", 1).types is graph.types
    assert Graph.load_unlabeled(f"split:0.5,0.2,0.1:3:{tmp_path / 'papers.pt'}", "paper").num_edges == graph.num_edges


def test_one_type_with_features_is_a_graph_without_types(tmp_path: Path) -> None:
    data = HeteroData()
    data["county"].x, data["county"].y = torch.randn(20, 3), torch.randn(20)
    data["county", "beside", "county"].edge_index = torch.stack([torch.arange(19), torch.arange(1, 20)])
    torch.save(data, tmp_path / "counties.pt")
    graph = Graph.load(tmp_path / "counties.pt")
    assert (graph.types, graph.num_edges, graph.target) == (None, 38, "values")
    assert Graph.load_unlabeled(tmp_path / "counties.pt").num_edges == 38
    assert Graph.from_pyg(data).num_edges == 19


@pytest.mark.parametrize(
    ("data", "target", "kind", "rule"),
    [
        (papers(), "papers", UsageError, "must be one of the node types author, paper, topic, got papers.*paper"),
        (papers(), "author", GraphError, "the target author must have labels y, got none; types with labels: paper"),
        (papers(), "topic", GraphError, "the target topic must have labels y"),
    ],
)
def test_a_target_that_can_not_be_predicted_is_refused(data: HeteroData, target: str, kind: Any, rule: str) -> None:
    with pytest.raises(kind, match=rule):
        Graph.from_pyg(data, target=target)


def test_what_is_missing_or_ambiguous_is_said(tmp_path: Path) -> None:
    data = papers()
    data["topic"].y = torch.arange(5) % 2
    with pytest.raises(UsageError, match="target must name one of the types with labels: paper, topic"):
        as_graph(data)
    assert as_graph(data, target="topic").target_type == "topic"
    del data["topic"].y, data["paper"].y
    with pytest.raises(GraphError, match="it has node types, author, paper, topic, of which one must have labels y"):
        as_graph(data)
    data = papers()
    data["author"].y = torch.arange(7) % 2
    del data["paper", "rev_writes", "author"]
    with pytest.raises(GraphError, match=r"the target author must have in-neighbors.*ToUndirected"):
        as_graph(data, target="author")
    data = papers()
    data["paper"].train_mask = torch.ones(30, dtype=torch.bool)
    data["paper"].val_mask = torch.ones(30, dtype=torch.bool)
    with pytest.raises(GraphError, match="mask"):
        as_graph(data)
    data["paper"].x[3, 1] = float("nan")
    with pytest.raises(GraphError, match="paper: "):
        as_graph(data)
    for spec in ("target:paper", "target::x.npz", "target:a:target:b:x.npz"):
        with pytest.raises(UsageError, match="must have the form target:TYPE:GRAPH"):
            Graph.load(spec)
    with pytest.raises(UsageError, match="needs a graph with node types"):
        Graph.load("target:paper:synthetic:nodes=50")


def test_the_data_of_a_graph_makes_the_same_graph() -> None:
    data = papers()
    data["paper"].train_mask = torch.arange(30) < 20
    data["paper"].val_mask, data["paper"].test_mask = torch.arange(30) == 22, torch.arange(30) > 25
    graph = Graph.from_pyg(data)
    assert Graph.from_pyg(graph.to_pyg()).fingerprint == graph.fingerprint


def test_what_needs_one_type_refuses_types(tmp_path: Path) -> None:
    file, folder = tmp_path / "papers.pt", tmp_path / "folder"
    torch.save(papers(), file)
    Graph.load(file).save(folder)
    for spec, rule in ((file, "HeteroData"), (folder, "has node types")):
        with pytest.raises(GraphError, match=rule):
            Graph.load_untyped(spec)


def test_rows_of_another_form_are_refused_and_not_dropped() -> None:
    for name, value, rule in (
        ("x", torch.randn(30), "x"),
        ("x", torch.randn(30, 2, 2), "x"),
        ("x", np.ones((30, 2)), "x of paper must be a tensor, got ndarray"),
        ("y", np.arange(30) % 3, "y must be a tensor, got ndarray"),
    ):
        data = papers()
        data["paper"][name] = value
        with pytest.raises(GraphError, match=rule):
            Graph.from_pyg(data)


def test_loaders_take_the_data_itself() -> None:
    with pytest.raises(UsageError, match="takes the file or the HeteroData"):
        Loader(Graph.from_pyg(papers()), [2])


def test_labels_of_more_nodes_than_edges_name_ask_for_their_number() -> None:
    data = papers()
    del data["paper"].x
    data["paper"].y = torch.zeros(40, dtype=torch.int64)
    with pytest.raises(GraphError, match=r"paper must have num_nodes or x.*30 nodes.*40.*num_nodes = 40"):
        Graph.from_pyg(data)
