"""What a saved model says of nodes is what its training was judged by, on the same graph and on others."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn.models import GraphSAGE

from a3gnn.apply.predict import predict, save_predictions
from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, ConfigError, GraphError, MemoryLimitError, ModelError, UsageError
from a3gnn.evaluation.column_groups import BESIDE_BYTES
from a3gnn.evaluation.inference import Inference, Scratch
from a3gnn.evaluation.neighborhoods import Neighborhoods
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.models.model import build_model
from a3gnn.process.memory_guard import MemoryGuard, host_bytes
from a3gnn.storage.npy import NpyWriter
from a3gnn.task import Task
from a3gnn.training.result import TrainResult
from a3gnn.training.saved_model import SavedModel

_CONFIG = TrainConfig(batch_size=128)
_TASK = Task(hidden_channels=16, fanouts=(5, 5), learning_rate=0.01)


@pytest.fixture(scope="module")
def trained(small_folder_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TrainResult]:
    """Trains for three epochs, once per task and graph."""
    kept: dict[tuple[str, str], TrainResult] = {}

    def get(task: Task = _TASK, graph: Graph = small_folder_graph) -> TrainResult:
        key = task.key(), graph.fingerprint
        if key not in kept:
            out = tmp_path_factory.mktemp("runs") / "run"
            kept[key] = train(_CONFIG, graph, task=task, metric="auto", epochs=3, out=out)
        return kept[key]

    return get


def data_of(graph: Graph) -> Data:
    """The graph's x and edge_index, and nothing else."""
    data = graph.to_pyg()
    return Data(x=data.x, edge_index=data.edge_index)


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gin"])
def test_the_most_probable_classes_have_the_quality_that_training_found(model, trained, small_folder_graph) -> None:
    result, graph = trained(dataclasses.replace(_TASK, model=model)), small_folder_graph
    found = predict(result.folder, graph)
    assert found.shape == (graph.num_nodes, graph.num_classes)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.sum(dim=1), torch.ones(graph.num_nodes))
    right = found.argmax(dim=1).numpy() == graph.labels
    assert right[graph.test_ids].mean() == pytest.approx(result.test_accuracy)
    assert right[graph.val_ids].mean() == pytest.approx(result.val_accuracy)


def test_it_is_what_pyg_computes_with_the_same_file(trained, small_folder_graph) -> None:
    file, data = trained().folder / "model.pt", data_of(small_folder_graph)
    theirs = GraphSAGE(data.num_features, 16, 2, small_folder_graph.num_classes)
    theirs.load_state_dict(torch.load(file, weights_only=True))
    with torch.no_grad():
        expected = theirs.eval()(data.x, data.edge_index).softmax(dim=1)
    torch.testing.assert_close(predict(file, data), expected, rtol=1e-4, atol=1e-5)


def test_nodes_are_answered_for_in_the_order_that_they_are_given_in(trained, small_folder_graph) -> None:
    folder = trained().folder
    everything = predict(folder, small_folder_graph)
    ids = [7, 3, 7, 1999]
    torch.testing.assert_close(predict(folder, small_folder_graph, nodes=ids), everything[ids])
    mask = torch.zeros(small_folder_graph.num_nodes, dtype=torch.bool)
    mask[5::11] = True
    torch.testing.assert_close(predict(str(folder), small_folder_graph, nodes=mask), everything[mask])


def test_of_a_data_x_and_edge_index_are_read_alone(trained, small_folder_graph) -> None:
    data, folder = data_of(small_folder_graph), trained().folder
    expected = predict(folder, small_folder_graph)
    torch.testing.assert_close(predict(folder, data), expected)
    data.y, data.train_mask = torch.full((data.num_nodes,), -1), torch.zeros(data.num_nodes, dtype=torch.bool)
    torch.testing.assert_close(predict(folder, data), expected)
    lines: list[str] = []
    predict(folder, Data(x=data.x.double(), edge_index=data.edge_index), notify=lines.append)
    assert lines == ["features were float64; they are stored as float32"]
    with pytest.raises(GraphError, match="must have x and edge_index, but it lacks edge_index"):
        predict(folder, Data(x=data.x))


@pytest.mark.parametrize("suffix", ["npz", "pt"])
def test_of_a_file_x_and_edge_index_are_read_alone(suffix, trained, small_folder_graph, tmp_path: Path) -> None:
    data, path, folder = data_of(small_folder_graph), tmp_path / f"plain.{suffix}", trained().folder
    if suffix == "pt":
        torch.save(data, path)
    else:
        np.savez(path, x=data.x.numpy(), edge_index=data.edge_index.numpy(), edge_weight=np.ones(data.num_edges))
    with pytest.raises(GraphError, match="lacks y"):
        Graph.load(path)
    lines: list[str] = []
    torch.testing.assert_close(predict(folder, path, notify=lines.append), predict(folder, small_folder_graph))
    weighted = "edge_weight of the graph's edges is not read by sage"
    assert lines == ([weighted] if suffix == "npz" else [])
    if suffix == "pt":
        torch.save(Data(edge_index=data.edge_index, num_nodes=data.num_nodes), path)
    else:
        np.savez(path, edge_index=data.edge_index.numpy())
    with pytest.raises(GraphError, match=r"x.* lacks x"):
        predict(folder, path)


def test_labels_get_a_probability_each_and_values_are_values(trained, labels_graph, values_graph) -> None:
    found = predict(trained(graph=labels_graph).folder, labels_graph)
    assert found.shape == (300, 4)
    assert ((found > 0) & (found < 1)).all()
    assert (found.sum(dim=1) > 1.01).any()
    known = labels_graph.labels[:, 0] >= 0
    assert found[known][labels_graph.labels[known] == 1].mean() > found[known][labels_graph.labels[known] == 0].mean()
    result = trained(graph=values_graph)
    found = predict(result.folder, values_graph)
    assert found.shape == (300,)
    kept = values_graph.test_ids[~np.isnan(values_graph.labels[values_graph.test_ids])]
    error = np.abs(found.numpy()[kept] - values_graph.labels[kept]).mean()
    assert error == pytest.approx(result.metric.number(result.test_accuracy), rel=1e-4)


@pytest.mark.parametrize("name", ["Edges", "Layers"])
def test_a_model_of_the_users_says_what_it_was_judged_by(name, trained, package, small_folder_graph) -> None:
    task = Task(model=package.factory(name), fanouts=(10, 5), learning_rate=0.01)
    result, graph = trained(task), small_folder_graph
    found = predict(result.folder, graph)
    right = found.argmax(dim=1).numpy() == graph.labels
    assert right[graph.test_ids].mean() == pytest.approx(result.test_accuracy)
    ids = graph.test_ids[::-3].copy()
    torch.testing.assert_close(predict(result.folder, data_of(graph), nodes=ids), found[torch.from_numpy(ids).long()])


def test_what_differs_from_training_is_said(trained, package, small_folder_graph, monkeypatch) -> None:
    task = Task(model=package.factory("Edges"), fanouts=(10, 5), learning_rate=0.01)
    result, lines = trained(task), []
    monkeypatch.setattr("a3gnn.apply.predict.evaluation_bytes", lambda limit: 100_000)
    predict(result.folder, small_folder_graph, notify=lines.append)
    assert [line.split(" in-neighbors")[0] for line in lines] == [
        "predictions are computed from a fixed sample of 10, 5"
    ]
    package.write("widths", "HIDDEN = 32  # as before\n")
    predict(result.folder, small_folder_graph, notify=lines.append)
    assert "has changed since the training" in lines[1]


def test_an_older_file_is_written_anew_by_resuming(trained, small_folder_graph) -> None:
    folder = trained(dataclasses.replace(_TASK, seed=3)).folder
    state = torch.load(folder / "model.pt", weights_only=True)
    del state._metadata["a3gnn"]
    torch.save(state, folder / "model.pt")
    with pytest.raises(ConfigError, match=r"must describe its model.*--resume writes the file again"):
        predict(folder, small_folder_graph)
    task = dataclasses.replace(_TASK, seed=3)
    result = train(_CONFIG, small_folder_graph, task=task, metric="auto", epochs=3, out=folder, resume=True)
    right = predict(folder, small_folder_graph).argmax(dim=1).numpy() == small_folder_graph.labels
    assert right[small_folder_graph.test_ids].mean() == pytest.approx(result.test_accuracy)


def test_other_arguments_are_refused(trained, small_folder_graph, tiny_graph, tmp_path: Path) -> None:
    folder, graph = trained().folder, small_folder_graph
    with pytest.raises(
        UsageError, match=r"model must be the path of a model.pt, or of the folder of a training, got 3"
    ):
        predict(3, graph)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"model.pt does not exist; a3gnn train --out DIR writes one"):
        predict(tmp_path, graph)
    (tmp_path / "model.pt").write_text("weights")
    with pytest.raises(ConfigError, match=r"must be a model.pt that a3gnn train wrote, but can't be read") as refused:
        predict(tmp_path, graph)
    assert "weights_only" not in str(refused.value)
    torch.save(torch.nn.Linear(2, 2), tmp_path / "whole.pt")
    with pytest.raises(ConfigError, match=r"can't be read: it holds torch\.nn\.modules\.linear\.Linear") as refused:
        predict(tmp_path / "whole.pt", graph)
    assert "weights_only" not in str(refused.value)
    with pytest.raises(GraphError, match="must have the 32 features of the model's training, got 16"):
        predict(folder, tiny_graph)
    with pytest.raises(UsageError, match=r"^nodes must be ids in \[0, 2000\), got 1 from 2000 to 2000"):
        predict(folder, graph, nodes=[2000])
    with pytest.raises(MemoryLimitError, match=r"must keep to 1.00 MiB"):
        predict(folder, graph, host_memory_limit="1MiB")
    state = torch.load(folder / "model.pt", weights_only=True)
    del state["convs.1.lin_l.bias"]
    torch.save(state, tmp_path / "model.pt")
    with pytest.raises(ModelError, match=r"(?s)weights in model.pt must fit sage.*convs.1.lin_l.bias"):
        predict(tmp_path, graph)


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gin", "gatv2", "transformer"])
@pytest.mark.parametrize("nodes", [1, 3])
def test_nodes_without_edges_are_predicted_as_isolated_nodes_of_a_graph(
    nodes: int, model, trained, small_folder_graph, tmp_path: Path
) -> None:
    folder = trained(dataclasses.replace(_TASK, model=model)).folder
    x = torch.from_numpy(small_folder_graph.features.arrays()["x"][:nodes])
    apart = Data(x=torch.cat([x, x[:1], x[:1]]), edge_index=torch.tensor([[nodes], [nodes + 1]]))
    expected = predict(folder, apart)[:nodes]
    for edges in (torch.empty(2, 0), torch.empty(2, 0, dtype=torch.long)):
        torch.testing.assert_close(predict(folder, Data(x=x, edge_index=edges)), expected)
    for name, edges in {"floats": np.empty((2, 0)), "pairs": np.empty((0, 2), int), "none": np.array([])}.items():
        np.savez(tmp_path / f"{name}.npz", x=x.numpy(), edge_index=edges)
        torch.testing.assert_close(predict(folder, tmp_path / f"{name}.npz"), expected)


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gin", "gatv2", "transformer"])
def test_predictions_that_overflow_are_an_error(model, trained, small_folder_graph) -> None:
    result = trained(dataclasses.replace(_TASK, model=model))
    saved = SavedModel.read(result.folder)
    large = dataclasses.replace(saved, weights={name: weight * 1e38 for name, weight in saved.weights.items()})
    with pytest.raises(
        A3GNNError, match=r"outputs must be finite, got NaN or infinite ones for .* nodes, such as node"
    ):
        predict(large, small_folder_graph)


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gin"])
def test_a_file_is_written_chunk_by_chunk_with_the_bits_that_python_returns(
    model, trained, small_folder_graph, tmp_path: Path, monkeypatch
) -> None:
    result = trained(dataclasses.replace(_TASK, model=model))
    expected = predict(result.folder, small_folder_graph)
    sizes, append = [], NpyWriter.append
    monkeypatch.setattr(NpyWriter, "append", lambda file, rows: (sizes.append(len(rows)), append(file, rows))[1])
    monkeypatch.setattr("a3gnn.evaluation.neighborhoods.Neighborhoods.chunks", in_tens)
    assert save_predictions(tmp_path / "p.npy", result.folder, small_folder_graph) == tuple(expected.shape)
    torch.testing.assert_close(torch.from_numpy(np.load(tmp_path / "p.npy")), expected)
    assert max(sizes) == 10


def in_tens(around: Neighborhoods, ids: np.ndarray, *_: object) -> Iterator[np.ndarray]:
    for start in range(0, len(ids), 10):
        yield ids[start : start + 10]


def test_room_on_the_disk_is_asked_for_before_the_first_step(
    trained, small_folder_graph, tmp_path, monkeypatch
) -> None:
    result, asked = trained(_TASK), []

    def nearly_full(folder: Path, needed: int) -> None:
        asked.append(needed)
        raise OSError(f"{needed} B are needed, 0 B are free")

    monkeypatch.setattr("a3gnn.evaluation.inference.Inference.logits", None)
    monkeypatch.setattr("a3gnn.evaluation.inference.need_room", nearly_full)
    with pytest.raises(A3GNNError, match=r"for all layers' outputs: .* are needed.* fewer nodes or hidden channels"):
        save_predictions(tmp_path / "p.npy", result.folder, small_folder_graph)
    classes, hidden = small_folder_graph.num_classes, _TASK.hidden_channels
    # A narrow last layer is mapped first: a mapped row per node, and each node's own row.
    assert asked[-1] >= 4 * small_folder_graph.num_nodes * (min(classes, hidden))
    monkeypatch.setattr("a3gnn.apply.predict.need_room", nearly_full)
    with pytest.raises(A3GNNError, match=r"predictions can't be written to .* give a file on another disk"):
        save_predictions(tmp_path / "p.npy", result.folder, small_folder_graph)
    assert asked[-1] == 4 * small_folder_graph.num_nodes * classes


def test_scratch_takes_what_was_asked_for(small_graph, tmp_path) -> None:
    for model, hidden, dtype in itertools.product(("sage", "gcn", "gat"), (4, 64), (np.float32, np.float16)):
        task = Task(model=model, hidden_channels=hidden, fanouts=(5, 5, 5), heads=2)
        rows = small_graph.features.array.astype(dtype)
        graph = dataclasses.replace(small_graph, features=DenseFeatures(rows))
        net = build_model(task, graph.num_features, graph.num_classes).eval()
        scratch, asked, taken = Scratch(tmp_path), [], []
        scratch.need, make = asked.append, scratch.matrix

        def noted(rows: int, columns: int, beside: int = 0, *, make=make, taken=taken) -> torch.Tensor:
            taken.append(4 * rows * columns)
            return make(rows, columns, beside)

        scratch.matrix = noted
        inference = Inference(graph, graph.test_ids[:50], 3, scratch=scratch)
        inference.check_room(net, 0)
        list(inference.logits(net))
        assert asked == [sum(taken)]


@pytest.fixture
def narrow(monkeypatch, small_folder_graph) -> Callable[[float], None]:
    """Leaves a guard memory for so many columns of float32 of the small graph, beside what chunks take."""

    def leave(columns: float) -> None:
        left = BESIDE_BYTES + int(4 * small_folder_graph.num_nodes * columns)
        monkeypatch.setattr(MemoryGuard, "left_bytes", property(lambda guard: left))

    return leave


@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_with_little_memory_layers_are_computed_by_groups_of_columns(
    model, trained, small_folder_graph, tmp_path, narrow, monkeypatch
) -> None:
    folder = trained(dataclasses.replace(_TASK, model=model)).folder
    expected, lines = predict(folder, small_folder_graph), []
    monkeypatch.setattr("a3gnn.apply.predict.Inference", None)
    narrow(6)
    torch.testing.assert_close(predict(folder, small_folder_graph, notify=lines.append), expected)
    assert "groups of columns: " in lines[0]
    assert "float32 scratch" in lines[0]
    half = save_predictions(
        tmp_path / "p.npy", folder, small_folder_graph, scratch_dtype="float16", notify=lines.append
    )
    assert half == tuple(expected.shape)
    rounded = torch.from_numpy(np.load(tmp_path / "p.npy"))
    assert 0 < (rounded - expected).abs().max() < 0.02
    assert "float16 scratch" in lines[1]


def test_of_attention_whole_rows_are_read_and_a_line_says_so(trained, small_folder_graph, narrow) -> None:
    folder = trained(dataclasses.replace(_TASK, model="gat")).folder
    expected, lines = predict(folder, small_folder_graph), []
    narrow(6)
    torch.testing.assert_close(predict(folder, small_folder_graph, notify=lines.append), expected)
    assert lines[0].startswith("gat reads whole rows at random, ")
    with pytest.raises(UsageError, match=r"scratch_dtype='float16' needs all nodes .* without attention, got gat for"):
        predict(folder, small_folder_graph, scratch_dtype="float16")


def test_rounding_is_for_all_nodes_only(trained, package, small_folder_graph) -> None:
    folder = trained().folder
    with pytest.raises(UsageError, match=r"needs all nodes .*, got sage for 2 of 2,000 nodes on cpu; leave it out"):
        predict(folder, small_folder_graph, nodes=[3, 4], scratch_dtype="float16")
    with pytest.raises(UsageError, match="scratch_dtype must be float32 or float16, got 'float8'"):
        predict(folder, small_folder_graph, scratch_dtype="float8")  # type: ignore[arg-type]
    own = trained(Task(model=package.factory("Edges"), fanouts=(10, 5), learning_rate=0.01)).folder
    with pytest.raises(UsageError, match="scratch_dtype='float16' needs a built-in model, got"):
        predict(own, small_folder_graph, scratch_dtype="float16")


def test_columns_that_do_not_fit_are_refused_with_the_alternatives(
    trained, small_folder_graph, narrow, tmp_path, monkeypatch
) -> None:
    folder = trained().folder
    monkeypatch.setattr("a3gnn.apply.predict.ColumnInference.logits", None)

    def full(folder: Path, needed: int) -> None:
        raise OSError(f"{needed} B are needed, 0 B are free")

    narrow(6)
    with monkeypatch.context() as patch:
        patch.setattr("a3gnn.evaluation.inference.need_room", full)
        with pytest.raises(A3GNNError, match=r"scratch_dtype='float16', which rounds .* some of the nodes by"):
            predict(folder, small_folder_graph)
    narrow(0.5)
    monkeypatch.setattr(MemoryGuard, "_most", property(lambda guard: host_bytes() + BESIDE_BYTES))
    with pytest.raises(MemoryLimitError, match=r"needs at least .*; raise the limit, or predict some of the nodes"):
        save_predictions(tmp_path / "p.npy", folder, small_folder_graph)


def test_what_can_not_fit_is_refused_before_the_first_step(trained, small_folder_graph, monkeypatch) -> None:
    result = trained(_TASK)
    monkeypatch.setattr("a3gnn.evaluation.inference.Inference.logits", None)
    monkeypatch.setattr("a3gnn.process.memory_guard.host_bytes", lambda: 2**30 - 1)
    with pytest.raises(MemoryLimitError, match=r"needs at least 1.00 GiB; write them with a3gnn predict --out"):
        predict(result.folder, small_folder_graph, host_memory_limit="1GiB")
