"""Folders of graphs with types or times: the same bits as the data, the same mini-batches, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data, HeteroData, InMemoryDataset, TemporalData

import a3gnn.graphs.convert as convert_module
import a3gnn.graphs.draft as draft_module
import a3gnn.storage.npy as npy_module
from a3gnn import Graph, LinkNeighborLoader, Loader
from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.as_graph import as_graph
from a3gnn.graphs.convert import convert
from a3gnn.graphs.draft import Draft
from a3gnn.graphs.typed import read_hetero, typed_graph
from a3gnn.graphs.verify import verify
from tests.commands import a3gnn
from tests.graphs.test_convert import shortened
from tests.graphs.test_pyg_sets import ring, serve  # noqa: F401  # serve is a fixture
from tests.graphs.test_typed import RATES, arrays, written

REAL = (
    *("acl_anthology", "acm_papers", "aifb", "bitcoin_otc", "chicago_roads", "college_msg", "human_protein_location"),
    *("lastfm_artists", "movielens_small", "mutag_rdf", "us_counties", "wn18rr"),
)


#: No sparse features.
DENSE = {name: None for name in arrays() if name.startswith("x_")}
DENSE.pop("x__user")


def parts(tensor: Tensor) -> list[Tensor]:
    """The dense tensors of a tensor, as integers where bits would be equal only by chance."""
    if tensor.layout == torch.sparse_csr:
        found = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif tensor.layout == torch.sparse_coo:
        found = [tensor.coalesce().indices(), tensor.coalesce().values()]
    elif tensor.layout == torch.sparse_csc:
        found = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    else:
        found = [tensor.as_subclass(Tensor)]
    return [part.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8) for part in found]


def is_mapped(address: int) -> bool:
    """Whether the memory at `address` is a map of an .npy or .npz file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= address < last:
            return line.removesuffix(" (deleted)").endswith((".npy", ".npz"))
    return False


def check_equal(one: Any, other: Any) -> None:
    """Checks that two values are of one kind and have the same bits."""
    if isinstance(one, np.ndarray):
        assert isinstance(other, np.ndarray)
        one, other = torch.from_numpy(one), torch.from_numpy(other)
    if not isinstance(one, Tensor):
        assert one == other
        assert type(one) is type(other)
        return
    assert (one.dtype, one.layout, one.shape) == (other.dtype, other.layout, other.shape)
    assert all(torch.equal(*pair) for pair in zip(parts(one), parts(other), strict=True))


def check_same(one: Any, other: Any) -> None:
    """Checks that two data objects have the same class, types, relations and attributes, bit for bit."""
    assert type(one) is type(other)
    stores = [{store._key: store for store in data.stores} for data in (one, other)]
    assert list(stores[0]) == list(stores[1])
    for key, store in stores[0].items():
        assert list(store.keys()) == list(stores[1][key].keys())
        for name, value in store.items():
            check_equal(value, stores[1][key][name])


def same_batches(one: Any, other: Any) -> int:
    """Checks that two loaders have the same mini-batches, and returns how many."""
    pairs = list(zip(one, other, strict=True))
    for first, second in pairs:
        check_same(first, second)
    return len(pairs)


@st.composite
def data_objects(draw: st.DrawFn) -> HeteroData:
    """Types with and without features, of several layouts and dtypes, relations with and without edges."""
    draws, data = torch.Generator().manual_seed(draw(st.integers(0, 2**31))), HeteroData()
    kinds = draw(st.lists(st.sampled_from(["user", "a/b", "x", "ü v", "1"]), min_size=1, max_size=4, unique=True))
    counts = {kind: draw(st.integers(0, 9)) for kind in kinds}
    for kind, count in counts.items():
        data[kind].num_nodes = count
        x = torch.randn((count, 4), generator=draws)
        made = {"dense": x, "half": x.half(), "b": x.bfloat16(), "double": x.double(), "turned": x.T.contiguous().T}
        made |= {"csr": x.relu().to_sparse_csr(), "coo": x.relu().to_sparse_coo(), "csc": x.relu().to_sparse_csc()}
        form = draw(st.sampled_from(["none", *made]))
        if form != "none":
            data[kind].x = made[form]
        if draw(st.booleans()):
            data[kind].train_mask = torch.rand(count, generator=draws) < 0.5
            data[kind].names = [f"{kind} {i}" for i in range(count)]
    for i in range(draw(st.integers(0, 3))):
        source, target = draw(st.sampled_from(kinds)), draw(st.sampled_from(kinds))
        edges = draw(st.integers(0, 20)) if counts[source] and counts[target] else 0
        relation = data[source, f"relation {i}", target]
        ends = [torch.randint(max(counts[kind], 1), (edges,), generator=draws) for kind in (source, target)]
        relation.edge_index = torch.stack(ends).to(draw(st.sampled_from([torch.int32, torch.int64])))
        if draw(st.booleans()):
            relation.edge_index = relation.edge_index.T.contiguous().T  # Fortran order
        if draw(st.booleans()):
            relation.time, relation["my weight"] = torch.arange(edges), np.linspace(0, 1, edges)
    data.title, data.scalar, data.options = "a graph", torch.tensor(3.5), {"k": [1, 2.5, None, True]}
    return data


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=data_objects())
def test_a_data_object_and_its_file_have_the_same_bits_in_a_folder(
    data: HeteroData, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("typed")
    opened = convert(data, folder / "object")
    check_same(opened, data)
    check_same(typed_graph(str(folder / "object")), data)
    check_same(convert(folder / "object", folder / "copy"), data)
    for tensor in (value for store in opened.stores for value in store.values() if isinstance(value, Tensor)):
        if tensor.layout == torch.strided and tensor.numel():
            assert is_mapped(tensor.data_ptr())
    for store in data.stores:  # NumPy's arrays of floats are not unpickled
        if "my weight" in store:
            store["my weight"] = torch.from_numpy(store["my weight"])
    torch.save(data, folder / "saved.pt")
    check_same(convert(folder / "saved.pt", folder / "file"), data)
    assert [finding.problem for finding in verify(folder / "object")].count("") == len(verify(folder / "object"))


@pytest.mark.parametrize("name", REAL)
def test_a_real_file_has_the_same_bits_in_a_folder(name: str, typed_folder: Path, tmp_path: Path) -> None:
    path = typed_folder / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path} is no file")
    check_same(convert(path, tmp_path / "graph"), read_hetero(path))
    assert [one.name for one in tmp_path.iterdir()] == ["graph"]


def foreign(folder: Path, **changes: Any) -> Path:
    """A file of other dtypes, orders and byte orders, with CSR columns that are neither sorted nor distinct."""
    draw = np.random.default_rng(0)
    users, edges, lengths = 3000, 40_000, draw.integers(0, 30, 800)
    made = {
        "num_nodes": np.array([users, 800]),
        "x__user": np.asfortranarray(draw.standard_normal((users, 20))),
        "train_mask__user": np.arange(users) % 2 == 0,
        "val_mask__user": None,
        "x_data__item": draw.standard_normal(lengths.sum()).astype(np.float16),
        "x_indices__item": draw.integers(0, 50, lengths.sum()).astype(np.int16),
        "x_indptr__item": np.concatenate([[0], lengths.cumsum()]).astype(np.int32),
        "x_shape__item": np.array([800, 50]),
        f"edge_index__{RATES}": np.stack([draw.integers(0, n, edges) for n in (users, 800)]).astype(np.int32),
        f"edge_time__{RATES}": np.arange(edges).astype(">i8"),
        f"edge_y__{RATES}": None,
        f"edge_attr__{RATES}": np.asfortranarray(draw.standard_normal((edges, 3))),
    }
    return written(folder, **made | changes)


def test_a_file_is_read_and_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, most, sizes, put = foreign(tmp_path), 1 << 12, [0], []
    expected = read_hetero(path)

    def content(*arguments: Any) -> Any:
        for piece in unpacked(*arguments):
            sizes.append(len(piece))
            yield piece

    def pieces(array: NDArray[Any]) -> Any:
        for piece in cut(array):
            sizes.append(piece.nbytes)
            yield piece

    def recorded(draft: Draft, name: str, array: NDArray[Any]) -> None:
        put.append((array.nbytes, is_mapped(array.ctypes.data), draft.moves(array)))
        whole(draft, name, array)

    unpacked, cut, whole = convert_module._content, npy_module.pieces, Draft.put
    monkeypatch.setattr(convert_module, "_BYTES_PER_PIECE", most)
    monkeypatch.setattr(npy_module, "_PIECE_BYTES", most)
    monkeypatch.setattr(draft_module, "_VALUES_PER_PIECE", most // 8)
    monkeypatch.setattr(convert_module, "_content", content)
    monkeypatch.setattr(npy_module, "pieces", pieces)
    monkeypatch.setattr(Draft, "put", recorded)
    check_same(convert(path, tmp_path / "graph"), expected)
    assert max(sizes) <= most
    assert sum(sizes) > zipfile.ZipFile(path).infolist()[0].file_size * 4
    large = [(mapped, moved) for size, mapped, moved in put if size > most]
    assert len(large) >= 6
    assert all(mapped for mapped, _ in large)  # no large array is in RAM
    assert sum(not moved for _, moved in large) == 2  # those in Fortran order


def test_a_loader_has_the_same_mini_batches_from_a_folder(tmp_path: Path) -> None:
    path = foreign(tmp_path, **DENSE)
    convert(path, tmp_path / "graph")
    more: dict[str, Any] = {"batch_size": 512, "shuffle": True}
    pair = [Loader(one, [4, 3], "user", **more) for one in (path, tmp_path / "graph")]
    assert same_batches(*pair) == 6
    timed: dict[str, Any] = {"time_attr": "time", "edge_label_time": torch.arange(40_000), "batch_size": 8000}
    relation = tuple(RATES.split("__"))
    links = [
        LinkNeighborLoader(one, [4], relation, neg_sampling="binary", **timed) for one in (path, tmp_path / "graph")
    ]
    assert same_batches(*links) == 5
    assert a3gnn("graph", "info", path).stdout == a3gnn("graph", "info", tmp_path / "graph").stdout


def test_real_mini_batches_are_the_same_from_a_folder(typed_folder: Path, tmp_path: Path) -> None:
    path = typed_folder / "movielens_small.npz"
    convert(path, tmp_path / "graph")
    pair = [Loader(one, [5, 5], "movie", batch_size=1024) for one in (path, tmp_path / "graph")]
    assert same_batches(*pair) == 10


def test_a_conversion_is_repeated_and_another_graph_is_refused(tmp_path: Path) -> None:
    path, folder = written(tmp_path), tmp_path / "graph"
    convert(path, folder)
    before = {one.name: one.stat().st_ino for one in folder.iterdir()}
    check_same(convert(path, folder), read_hetero(path))
    assert {one.name: one.stat().st_ino for one in folder.iterdir()} == before
    other = written(tmp_path, x__user=np.ones((3, 2), dtype=np.float32))
    for spec in (other, "synthetic:nodes=50,degree=4"):
        with pytest.raises(GraphError, match="holds another graph; choose another folder"):
            convert(spec, folder)
    convert("synthetic:nodes=50,degree=4", tmp_path / "plain")
    with pytest.raises(GraphError, match="holds another graph; choose another folder"):
        convert(path, tmp_path / "plain")
    with pytest.raises(GraphError, match="holds another graph; choose another folder"):
        Graph.load("synthetic:nodes=50,degree=4").save(folder)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["graph", "plain", "typed.npz"]


@pytest.mark.parametrize("limit", [400, 20_000, 300_000])
def test_a_write_that_fails_leaves_nothing(limit: int, tmp_path: Path) -> None:
    path = foreign(tmp_path)
    # A limit on file size stands for a full disk: write(2) fails once files pass it.
    code = (
        "import resource, signal, sys\n"
        "from a3gnn.errors import GraphError\nfrom a3gnn.graphs.convert import convert\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "try: convert(sys.argv[1], 'room/graph')\n"
        "except GraphError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "the graph can't be written to room/graph" in done.stdout
    assert list((tmp_path / "room").iterdir()) == []


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, calls = foreign(tmp_path), []

    def interrupted(draft: Draft, name: str, array: NDArray[Any]) -> None:
        calls.append(name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        whole(draft, name, array)

    whole = Draft.put
    monkeypatch.setattr(Draft, "put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        convert(path, tmp_path / "graph")
    assert list(tmp_path.iterdir()) == [path]


def damaged(folder: Path, name: str, change: Any) -> None:
    (file,) = folder.glob(f"{name}*")
    data = bytearray(file.read_bytes())
    change(data)
    file.write_bytes(data)


def flip(data: bytearray) -> None:
    data[-1] ^= 1


def cut_off(data: bytearray) -> None:
    del data[-1:]


@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        ("edge_index_", flip, r"edge_index_\d+\.npy is damaged: its hash must be \w+, got \w+; convert"),
        ("x_", flip, r"x_\d+\.npy is damaged"),
        ("time_", cut_off, r"time_\d+\.npy is missing or truncated"),
    ],
)
def test_a_damaged_array_is_found(name: str, change: Any, rule: str, tmp_path: Path) -> None:
    convert(written(tmp_path, **DENSE), tmp_path / "graph")
    sound = a3gnn("graph", "verify", tmp_path / "graph")
    assert sound.returncode == 0
    assert all(line.endswith("sound") for line in sound.stdout.splitlines())
    damaged(tmp_path / "graph", name, change)
    for _ in range(2):  # a failed verification is not remembered
        with pytest.raises(GraphError, match=rule):
            Loader(tmp_path / "graph", [2], "user")
    with pytest.raises(GraphError, match=r"must be new or empty, or hold this graph: .*delete it"):
        convert(written(tmp_path), tmp_path / "graph")
    verified = a3gnn("graph", "verify", tmp_path / "graph", "--json")
    assert verified.returncode == 1
    if change is flip:
        problems = {one["name"]: one["problem"] for one in json.loads(verified.stdout)["files"] if one["problem"]}
        assert len(problems) == 1
        assert min(problems).startswith(name)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"format_version": 2}, "the format version of .* must be 1, got 2; convert the graph again"),
        ({"format": "other"}, "is not a converted graph"),
        ({"class": "Data"}, "is damaged: its content has changed"),
        ({"arrays": {"../x": ["<f4", [1], ""]}}, "is damaged"),
    ],
)
def test_another_version_and_a_changed_description_are_refused(
    change: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    convert(written(tmp_path), tmp_path / "graph")
    meta = tmp_path / "graph" / "meta.json"
    meta.write_text(json.dumps(json.loads(meta.read_text()) | change))
    for take in (lambda folder: Loader(folder, [2], "user"), verify, lambda folder: convert(folder, tmp_path / "new")):
        with pytest.raises(GraphError, match=rule):
            take(tmp_path / "graph")
    assert a3gnn("graph", "info", tmp_path / "graph").returncode == 1


def test_uses_that_need_one_type_name_those_that_do_not(tmp_path: Path) -> None:
    path = written(tmp_path)
    convert(path, tmp_path / "graph")
    for spec in (path, tmp_path / "graph"):
        with pytest.raises(
            GraphError, match=r"has node types.*; only Loader, LinkNeighborLoader and a3gnn graph take it"
        ):
            Graph.load(spec)
        done = a3gnn("tune", "--dataset", spec, "--out", tmp_path / "run")
        assert done.returncode == 1
        assert "only Loader, LinkNeighborLoader and a3gnn graph take it" in done.stderr
    done = a3gnn("graph", "convert", path, tmp_path / "split", "--split", "0.6,0.2,0.2")
    assert (done.returncode, (tmp_path / "split").exists()) == (1, False)
    done = a3gnn("graph", "convert", path, tmp_path / "command")
    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path / "command"))
    assert "2 types of nodes and 1 relation are in" in done.stderr


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (
            {f"edge_time__{RATES}": np.array(["2020-01-01"] * 4, "M8[D]")},
            r"edge_time__.* of a type that torch has.*astype",
        ),
        ({f"edge_time__{RATES}": np.arange(3)}, r"edge_time__.* must have a row per edge, got shape \(3,\)"),
        ({"edge_types": np.array(["user__rates__film"])}, "got user__rates__film"),
        ({f"edge_index__{RATES}": np.array([[0], [2]])}, r"must be in \[0, 2\) for item"),
        ({f"edge_index__{RATES}": np.array([[0], [2**32 + 1]])}, r"must be in \[0, 2\) for item"),
    ],
)
def test_a_broken_file_is_refused_as_in_reading(change: dict[str, Any], rule: str, tmp_path: Path) -> None:
    path = written(tmp_path, **change)
    for take in (read_hetero, lambda path: convert(path, tmp_path / "graph")):
        with pytest.raises(GraphError, match=rule):
            take(path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
@pytest.mark.parametrize("name", [f"edge_index__{RATES}", "x__user"])
def test_a_member_that_ends_early_is_said(name: str, compression: int, tmp_path: Path) -> None:
    path = written(tmp_path)
    shortened(path, name, compression)
    before = path.read_bytes()
    with pytest.raises(GraphError, match=rf"typed\.npz is not a readable.*{name}\.npy.* bytes"):
        convert(path, tmp_path / "graph")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


def broken(**changes: Any) -> HeteroData:
    data = HeteroData()
    data["user"].x, data["item"].num_nodes = torch.ones(3, 2), 2
    data["user", "rates", "item"].edge_index = torch.tensor([[0, 2], [1, 0]])
    for name, value in changes.items():
        of_edges = name in ("edge_index", "edge_attr", "time")
        setattr(data["user", "rates", "item"] if of_edges else data["user"], name, value)
    return data


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (
            {"edge_index": torch.tensor([[0], [2]])},
            r"targets of user__rates__.* must be in \[0, 2\) for item, got 2 to 2",
        ),
        ({"edge_index": torch.tensor([[-1], [1]])}, r"sources of .* must be in \[0, 3\) for user, got -1 to -1"),
        ({"edge_index": torch.ones(2, 2)}, "edge_index must be integers"),
        ({"edge_index": torch.ones(3, 2).long()}, r"edge_index must have shape \(2, E\), got \(3, 2\)"),
        ({"time": torch.arange(3)}, r"time__user__rates__item must have a row per edge, got shape \(3,\) for 2 edges"),
        ({"edge_attr": torch.ones(1, 4)}, r"edge_attr__.* must have a row per edge, got shape \(1, 4\)"),
        ({"num_nodes": 4}, r"x__user must have a row per node, got shape \(3, 2\) for 4 nodes"),
        ({"train_mask": torch.ones(2).bool()}, "train_mask__user must have a row per node"),
    ],
)
def test_a_broken_object_is_refused(change: dict[str, Any], rule: str, tmp_path: Path) -> None:
    data = broken(**change)
    torch.save(data, tmp_path / "saved.pt")
    for one in (data, tmp_path / "saved.pt"):
        with pytest.raises(GraphError, match=rule):
            convert(one, tmp_path / "graph")
    assert [one.name for one in tmp_path.iterdir()] == ["saved.pt"]


def test_a_relation_of_an_unknown_type_is_refused(tmp_path: Path) -> None:
    data = broken()
    data["user", "sees", "film"].edge_index = torch.tensor([[0], [1]])
    for take in (lambda data: Loader(data, [2], "user"), lambda data: convert(data, tmp_path / "graph")):
        with pytest.raises(GraphError, match="a relation must connect known types, user__sees__film names 'film'"):
            take(data)


def test_an_attribute_that_files_can_not_hold_is_named(tmp_path: Path) -> None:
    data = HeteroData()
    data["user"].num_nodes, data["user"].tags = 2, {1, 2}
    with pytest.raises(GraphError, match=r"tags of user must be a tensor, .* got set; convert it, or delete it"):
        convert(data, tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0,)])
def test_a_relation_without_edges_and_an_isolated_type_are_taken(shape: tuple[int, ...], tmp_path: Path) -> None:
    changes = DENSE | {name: None for name in arrays() if name.endswith(RATES)}
    more = "user__likes__item"
    path = written(
        tmp_path,
        node_types=np.array(["user", "item", "lonely"]),
        num_nodes=np.array([3, 2, 5]),
        edge_types=np.array([RATES, more]),
        **changes
        | {f"edge_index__{RATES}": np.array([[0, 1], [1, 0]]), f"edge_time__{RATES}": np.array([3, 4])}
        | {f"edge_index__{more}": np.empty(shape), f"edge_attr__{more}": np.empty((0, 3))},
    )
    convert(path, tmp_path / "graph")
    data = read_hetero(path)
    data["user", "likes", "item"].edge_index = torch.empty(shape)
    for one in (path, tmp_path / "graph", data):
        (batch,) = Loader(one, [2], "item", batch_size=4, time_attr="time", input_time=torch.tensor([9, 9]))
        assert batch["user", "likes", "item"].edge_index.shape == (2, 0)
        assert batch["user", "rates", "item"].edge_index.shape == (2, 2)
    shown = json.loads(a3gnn("graph", "info", tmp_path / "graph", "--json").stdout)
    assert shown["notes"] == [
        "relations without times, which loaders do not bound (1 of 2): user likes item",
        "relations without edges (1 of 2): user likes item",
        "types without an edge (1 of 3): lonely",
    ]
    assert "types without an edge (1 of 3): lonely" in a3gnn("graph", "info", tmp_path / "graph").stdout
    assert json.loads(a3gnn("graph", "info", path, "--json").stdout)["node_types"]["lonely"]["nodes"] == 5


def events(number: int = 40) -> TemporalData:
    draw = torch.Generator().manual_seed(0)
    return TemporalData(
        src=torch.randint(10, (number,), generator=draw),
        dst=torch.randint(10, 20, (number,), generator=draw),
        t=torch.arange(number) // 2,
        msg=torch.randn((number, 3), generator=draw),
        y=torch.randint(2, (number,), generator=draw),
        kind=torch.arange(number),
    )


def test_events_are_edges_with_times_everywhere(tmp_path: Path) -> None:
    given = events()
    torch.save(given, tmp_path / "saved.pt")
    opened = convert(given, tmp_path / "graph")
    assert isinstance(opened, Data)
    assert (opened.num_nodes, opened.edge_index.tolist()) == (given.num_nodes, [given.src.tolist(), given.dst.tolist()])
    for name, other in {"time": "t", "edge_attr": "msg", "edge_y": "y", "edge_kind": "kind"}.items():
        assert torch.equal(opened[name], given[other])
    check_same(convert(tmp_path / "saved.pt", tmp_path / "file"), opened)
    forms = [given, tmp_path / "saved.pt", tmp_path / "graph", opened]
    more: dict[str, Any] = {"time_attr": "time", "batch_size": 16}
    batches = [list(Loader(one, [3, 2], given.dst, input_time=given.t, **more)) for one in forms]
    links = [list(LinkNeighborLoader(one, [3], edge_label_time=given.t, **more)) for one in forms]
    for one, *others in (batches, links):
        assert sum(batch.edge_index.shape[1] for batch in one) > 0
        for batch in one:
            assert torch.equal(batch.edge_attr, given.msg[batch.e_id])
            times = batch.seed_time if "seed_time" in batch else batch.edge_label_time
            assert (batch.time <= times.max()).all()
        for other in others:
            same_batches(one, other)
    shown = a3gnn("graph", "info", tmp_path / "saved.pt").stdout
    assert shown == a3gnn("graph", "info", tmp_path / "graph").stdout
    assert "node to node" in shown
    assert "40 edges, mean in-degree 2.00, times 0 to 19" in shown


def test_times_of_as_many_events_as_nodes_stay_those_of_edges(tmp_path: Path) -> None:
    given = TemporalData(src=torch.tensor([2, 1, 0]), dst=torch.tensor([0, 2, 1]), t=torch.tensor([5, 6, 7]))
    (batch,) = Loader(given, [3], torch.tensor([1]), time_attr="edge_time", input_time=torch.tensor([6]))
    assert batch.edge_index.shape == (2, 0)
    (batch,) = Loader(given, [3], torch.tensor([1]), time_attr="edge_time", input_time=torch.tensor([7]))
    assert batch.edge_time.tolist() == [7]
    with pytest.raises(UsageError, match="time_attr must name an attribute"):
        Loader(given, [3], time_attr="time")
    opened = convert(given, tmp_path / "graph")
    assert opened.edge_time.tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"t": None}, "must have src, dst and t, a number per event each, got none as t"),
        ({"t": torch.arange(3)}, r"t must have one row per event, got shape \(3,\) for 40 events"),
        ({"msg": torch.ones(39, 2)}, r"msg must have one row per event, got shape \(39, 2\) for 40 events"),
    ],
)
def test_events_without_times_or_of_other_lengths_are_refused(change: dict[str, Any], rule: str) -> None:
    given = events()
    for name, value in change.items():
        given[name] = value
    for take in (lambda data: Loader(data, [2]), lambda data: convert(data, "never")):
        with pytest.raises(GraphError, match=rule):
            take(given)


def test_events_are_refused_where_times_have_no_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only Loader and LinkNeighborLoader take events with times; Data"):
        as_graph(events())
    torch.save(events(), tmp_path / "saved.pt")
    done = a3gnn("tune", "--dataset", tmp_path / "saved.pt", "--out", tmp_path / "run")
    assert done.returncode == 1
    assert "only Loader and LinkNeighborLoader take events with times" in done.stderr


class Stored(InMemoryDataset):
    """A data set whose processed file is there already."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.load(self.processed_paths[0], data_cls=HeteroData)

    @property
    def processed_file_names(self) -> str:
        return "data.pt"


@pytest.mark.parametrize("kind", ["types", "events", "plain"])
def test_sets_by_name_are_opened_by_loaders(
    kind: str, cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content: Any = {"types": read_hetero(written(tmp_path, **DENSE)), "events": events(), "plain": ring()}[kind]
    if kind == "plain":
        content.y = content.y.nan_to_num(-1).long()
    name = f"Stored{kind.title()}"
    monkeypatch.setattr("torch_geometric.datasets." + name, type(name, (Stored,), {}), raising=False)
    processed = cache_folder / "downloads" / "pyg" / name / "processed"
    processed.mkdir(parents=True, exist_ok=True)
    torch.save((content.to_dict(), None, type(content)), processed / "data.pt")
    (processed / "pre_transform.pt").unlink(missing_ok=True)
    seeds: Any = "user" if kind == "types" else None
    expected = Graph.from_pyg(content) if kind == "plain" else content
    assert same_batches(Loader(f"pyg:{name}", [2], seeds), Loader(expected, [2], seeds)) == 1
    opened = convert(f"pyg:{name}", tmp_path / "graph")
    assert same_batches(Loader(tmp_path / "graph", [2], seeds), Loader(expected, [2], seeds)) == 1
    assert isinstance(opened, {"types": HeteroData, "events": Data, "plain": Graph}[kind])
    assert a3gnn("graph", "info", f"pyg:{name}").returncode == 0
    if kind != "plain":
        what = "heterogeneous" if kind == "types" else "events with times"
        with pytest.raises(GraphError, match=f"must have one type of nodes and edges, but .*{what}"):
            Graph.load(f"pyg:{name}")
        split = ("--split", "0.6,0.2,0.2")
        assert a3gnn("graph", "convert", f"pyg:{name}", tmp_path / "other", *split).returncode == 1
        assert a3gnn("graph", "info", f"pyg:{name}", *split).returncode == 1


def test_a_set_of_ogb_in_dicts_is_a_hetero_data(serve: Any, tmp_path: Path) -> None:  # noqa: F811
    relation = ("author", "writes", "paper")
    data = Data(
        num_nodes_dict={"author": 3, "paper": 4},
        edge_index_dict={relation: torch.tensor([[0, 1, 2], [3, 2, 1]])},
        x_dict={"paper": torch.eye(4)},
        node_year={"paper": torch.full((4, 1), 2019)},
        edge_reltype={relation: torch.zeros(3, 1, dtype=torch.int64)},
        y_dict={"paper": torch.arange(4)[:, None]},
    )
    serve(data, {part: {"paper": np.array([i])} for i, part in enumerate(("train", "valid", "test"))})
    opened = convert("ogb:ogbn-mag", tmp_path / "graph")
    assert isinstance(opened, HeteroData)
    assert (opened["author"].num_nodes, opened["paper"].y.tolist()) == (3, [0, 1, 2, 3])
    assert opened["paper"].year.shape == (4, 1)
    assert opened[relation].edge_reltype.shape == (3, 1)
    assert opened["paper"].val_mask.tolist() == [False, True, False, False]
    seeds = ("paper", opened["paper"].train_mask)
    (batch,) = Loader("ogb:ogbn-mag", [2], seeds, batch_size=4)
    assert batch["paper"].n_id.tolist() == [0]
    graph = Graph.load("ogb:ogbn-mag")
    assert (graph.target_type, graph.train_ids.tolist(), graph.num_classes) == ("paper", [3], 3)


@pytest.mark.parametrize("name", ["a\u00b2", "\u2167", "5x", "../x", "", "a\u0301"])
def test_names_of_any_characters_and_scalars_of_numpy_are_stored(name: str, tmp_path: Path) -> None:
    data = HeteroData()
    data["a"].num_nodes = np.int64(3)
    data["a"][name] = torch.arange(3)
    data["a", "to", "a"].edge_index = torch.tensor([[0, 1], [1, 2]])
    found = convert(data, tmp_path / "folder")
    assert isinstance(found, HeteroData)
    assert found["a"].num_nodes == 3
    assert torch.equal(found["a"][name], torch.arange(3))
