"""edge_attr and edge_weight of a graph: every form that it is read from, duplicates, files, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import coalesce

from a3gnn.errors import GraphError
from a3gnn.graphs.assemble import in_neighbors
from a3gnn.graphs.convert import convert
from a3gnn.graphs.edge_values import placed
from a3gnn.graphs.graph import Graph
from a3gnn.parts.make import make_parts
from a3gnn.storage.cache import cache_root
from a3gnn.storage.graph_copies import remember, source_of
from tests.commands import a3gnn

NODES = 60


@pytest.fixture
def arrays() -> dict[str, Any]:
    """A graph with duplicates, self loops, attributes and weights."""
    rng = np.random.default_rng(0)
    edges = rng.integers(0, NODES, (2, 500))
    part = np.arange(NODES) % 3
    return {
        "edge_index": np.concatenate([edges, edges[:, :40]], axis=1),
        "x": rng.normal(size=(NODES, 4)).astype(np.float32),
        "y": rng.integers(0, 3, NODES),
        "edge_attr": rng.normal(size=(540, 3)),
        "edge_weight": rng.random(540),
        **{f"{name}_mask": part == place for place, name in enumerate(("train", "val", "test"))},
    }


def expected(arrays: dict[str, Any]) -> tuple[torch.Tensor, dict[str, np.ndarray]]:
    """Returns edge_index and values of PyG's `coalesce`."""
    values = {name: torch.from_numpy(arrays[name]).float() for name in ("edge_attr", "edge_weight")}
    edges, found = coalesce(
        torch.from_numpy(arrays["edge_index"]), list(values.values()), num_nodes=NODES, sort_by_row=False
    )
    return edges, dict(zip(values, (one.numpy() for one in found), strict=True))


def written(form: str, arrays: dict[str, Any], folder: Path) -> str | Data:
    data = Data.from_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    if form == "Data":
        return data
    path = folder / f"graph.{'pt' if form == 'pt' else 'npz'}"
    if form == "pt":
        torch.save(data, path)
    else:
        np.savez(path, **arrays)
    if form == "converted":
        convert(path, folder / "converted")
        return str(folder / "converted")
    return str(path)


@pytest.mark.parametrize("form", ["npz", "Data", "pt", "converted"])
def test_each_form_has_the_values_of_pygs_coalesce(form, arrays, tmp_path) -> None:
    source = written(form, arrays, tmp_path)
    graph = Graph.from_pyg(source) if isinstance(source, Data) else Graph.load(source)
    edges, values = expected(arrays)
    assert np.array_equal(graph.to_pyg().edge_index.numpy(), edges.numpy())
    assert {*graph.edge_values} == {*values}
    for name, found in graph.edge_values.items():
        np.testing.assert_allclose(found, values[name], rtol=1e-5, atol=1e-6)
        assert torch.equal(graph.to_pyg()[name], torch.from_numpy(np.array(found)))
    given, kept = arrays["edge_index"].shape[1], edges.shape[1]
    assert (
        f"{given - kept} of {given} edges were duplicates; they are removed, and their edge_attr and edge_weight added "
        "up, as by PyG's Data.coalesce"
    ) in graph.notes
    assert Graph.from_pyg(graph.to_pyg()).fingerprint == graph.fingerprint
    if form in ("npz", "pt"):
        unlabeled = Graph.load_unlabeled(source)
        assert all(np.array_equal(unlabeled.edge_values[name], graph.edge_values[name]) for name in values)


def test_a_streamed_conversion_has_the_same_bits(arrays, tmp_path) -> None:
    path = tmp_path / "graph.npz"
    for name in ("edge_attr", "edge_weight", "all"):
        kept = {key: array for key, array in arrays.items() if key == name or name == "all" or "edge_" not in key}
        np.savez(path, **kept | {"edge_index": arrays["edge_index"]})
        streamed = convert(path, tmp_path / f"streamed-{name}", memory_bytes=1000)
        saved = Graph.load(path).save(tmp_path / f"saved-{name}")
        assert streamed.fingerprint == saved.fingerprint
        assert streamed.notes == saved.notes
        for file in (tmp_path / f"saved-{name}").glob("*.npy"):
            assert file.read_bytes() == (tmp_path / f"streamed-{name}" / file.name).read_bytes()


@given(
    edges=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30),
    columns=st.integers(1, 3),
)
def test_values_are_at_the_places_of_their_edges(edges: list[tuple[int, int]], columns: int) -> None:
    index = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    values = {
        "edge_attr": np.arange(len(edges) * columns, dtype=np.int64).reshape(-1, columns),
        "edge_weight": np.arange(len(edges)).astype(np.float64),
    }
    indptr, indices, _ = in_neighbors(index, 6)
    found = placed(values, index, indptr, indices)
    rows = np.repeat(np.arange(6), np.diff(indptr))
    for place, (source, target) in enumerate(zip(indices, rows, strict=True)):
        same = [number for number, edge in enumerate(edges) if edge == (source, target)]
        assert same
        for name, array in values.items():
            assert np.array_equal(found[name][place], array[same].sum(axis=0))


def test_only_graphs_with_values_have_another_fingerprint(arrays, tmp_path) -> None:
    bare = {name: array for name, array in arrays.items() if name not in ("edge_attr", "edge_weight")}
    found = []
    for number, some in enumerate((bare, bare | {"edge_attr": arrays["edge_attr"]}, arrays)):
        np.savez(tmp_path / "graph.npz", **some)
        graph = Graph.load(tmp_path / "graph.npz").save(tmp_path / str(number))
        found.append(graph.fingerprint)
        assert Graph.load(tmp_path / str(number)).content_fingerprint() == graph.fingerprint
        assert (tmp_path / str(number) / "edge_attr.npy").exists() == ("edge_attr" in some)
    plain = dataclasses.replace(graph, edge_attr=None, edge_weight=None)
    assert plain.folder is None
    assert plain.fingerprint == found[0]
    assert len({*found}) == 3


def test_a_copy_of_an_older_version_without_values_is_not_used(arrays, tmp_path) -> None:
    path = tmp_path / "graph.npz"
    np.savez(path, **arrays)
    plain = dataclasses.replace(Graph.load(path), edge_attr=None, edge_weight=None, source=None).on_disk()
    for note, reads in (
        ("ignored arrays: edge_attr, edge_weight; edges have no weights or attributes here", True),
        ("edge_attr is not used: edges have neither weights nor other attributes in a3gnn's mini-batches", True),
        ("ignored arrays: names; edges have no weights or attributes here", False),
    ):
        remember(cache_root(), source_of(path), plain.fingerprint, (note,))
        assert ("edge_attr" in Graph.load(path).edge_values) == reads


@pytest.mark.parametrize(
    ("name", "values", "rule"),
    [
        ("edge_attr", np.ones((539, 3)), "edge_attr must have one row per edge, got 539 rows for 540 edges"),
        ("edge_weight", np.full(540, np.nan), "edge_weight must be finite, got 540 NaN or infinite values"),
        ("edge_weight", np.full(540, 1e300), "edge_weight must fit float32"),
        ("edge_weight", np.ones((540, 2)), r"edge_weight must be one number per edge, got float64 of shape \(540, 2\)"),
        ("edge_attr", np.array(["a"] * 540), "edge_attr must be numbers, one or a row per edge, got <U1"),
        ("edge_attr", np.ones((540, 0)), "edge_attr must be numbers, one or a row per edge"),
    ],
)
def test_what_is_no_number_per_edge_is_refused(name, values, rule, arrays, tmp_path) -> None:
    path = tmp_path / "graph.npz"
    np.savez(path, **arrays | {name: values})
    for load in (Graph.load, Graph.load_unlabeled, lambda one: convert(one, tmp_path / "converted")):
        with pytest.raises(GraphError, match=rule):
            load(path)


def test_unsound_values_are_refused(arrays, tmp_path) -> None:
    graph = Graph.load(written("npz", arrays, tmp_path))
    for name, values, rule in (
        ("edge_attr", graph.edge_attr[1:], "edge_attr must have one row per edge"),
        ("edge_attr", graph.edge_attr.astype(np.float64), "edge_attr must be float32 of 2 dimensions"),
        ("edge_weight", graph.edge_weight[:, None], "edge_weight must be float32 of 1 dimension"),
        ("edge_weight", graph.edge_weight * np.float32(np.nan), "edge_weight must be finite"),
    ):
        with pytest.raises(GraphError, match=rule):
            dataclasses.replace(graph, **{name: values})


def test_info_and_parts_name_them(arrays, tmp_path) -> None:
    path = written("npz", arrays, tmp_path)
    shown = a3gnn("graph", "info", path).stdout
    assert re.search(r"edge_attr +3 columns\n", shown)
    assert re.search(r"edge_weight +1 column\n", shown)
    assert json.loads(a3gnn("graph", "info", path, "--json").stdout)["edge_attr"] == 3
    make_parts(Graph.load(path).on_disk(), tmp_path / "parts", 2, partitioner="random")
    meta = json.loads((tmp_path / "parts" / "part-0" / "meta.json").read_text())
    assert {"edge_attr of edges is not in parts", "edge_weight of edges is not in parts"} <= {*meta["graph"]["notes"]}
