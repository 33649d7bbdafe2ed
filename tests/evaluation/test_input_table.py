"""Training whose input layer reads a table of whole in-neighborhoods (input_aggregation full)."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a3gnn.config import COMPUTE_DTYPES, DYNAMIC_POLICIES, STATIC_POLICIES, TrainConfig
from a3gnn.errors import ConfigError, GraphError
from a3gnn.evaluation.aggregate_table import aggregate_table
from a3gnn.evaluation.inference import Inference, Scratch
from a3gnn.evaluation.neighborhoods import Neighborhoods
from a3gnn.features.row_table import AGGREGATORS
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.verify import verify
from a3gnn.models.batch_blocks import blocks_of
from a3gnn.task import Task
from a3gnn.training.curve import first_point
from a3gnn.training.trainer import Trainer, TrainerOptions
from tests.training.loops import with_self_loops

FULL = TrainConfig(batch_size=40, input_aggregation="full")
FORMS = ["dense-float32", "dense-float16", "sparse-float32", "sparse-float16"]


def sparse_of(matrix: np.ndarray) -> SparseFeatures:
    rows, columns = np.nonzero(matrix)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(matrix)))]).astype(np.int64)
    return SparseFeatures(matrix[rows, columns], columns.astype(np.int32), indptr, matrix.shape)


@pytest.fixture(scope="module")
def with_loops(tiny_graph: Graph) -> Graph:
    """`tiny_graph` with isolated nodes, and a self loop on every fifth node; in RAM."""
    return with_self_loops(tiny_graph)


@pytest.fixture(scope="module")
def graphs(with_loops: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    """`with_loops` on disk with features of each form; of the sparse ones three in ten are stored."""
    draw = np.random.default_rng(4)
    matrix = draw.normal(size=(with_loops.num_nodes, 16))
    thin = np.where(draw.random(matrix.shape) < 0.7, 0, matrix)
    thin[5] = 0
    made = {}
    for form in FORMS:
        layout, dtype = form.split("-")
        features = DenseFeatures(matrix.astype(dtype)) if layout == "dense" else sparse_of(thin.astype(dtype))
        graph = dataclasses.replace(with_loops, features=features)
        made[form] = graph.save(tmp_path_factory.mktemp("graphs") / form)
    return made


def dense(features: DenseFeatures | SparseFeatures) -> np.ndarray:
    if isinstance(features, DenseFeatures):
        return features.array.astype(np.float64)
    out = np.zeros(features.shape)
    rows = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    np.add.at(out, (rows, features.indices), features.data.astype(np.float64))
    return out


def expected_table(graph: Graph, aggregator: str) -> np.ndarray:
    """The table by its definition, in float64."""
    x = dense(graph.features)
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    adjacency[np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr)), graph.indices] = 1
    if aggregator == "mean":
        return np.hstack([adjacency @ x / np.maximum(adjacency.sum(axis=1, keepdims=True), 1), x])
    if aggregator == "sum":
        return adjacency @ x + x
    np.fill_diagonal(adjacency, 1)
    scale = adjacency.sum(axis=1) ** -0.5
    return scale[:, None] * adjacency * scale @ x


@pytest.mark.parametrize("chunk_bytes", [2000, 1 << 25])
@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("form", FORMS)
def test_a_table_holds_what_its_definition_says(form, aggregator, chunk_bytes, graphs) -> None:
    graph = graphs[form]
    shutil.rmtree(graph.folder / "derived", ignore_errors=True)
    around = Neighborhoods(graph, torch.device("cpu"), chunk_bytes, in_place=True, on_chunk=lambda: None)
    table = aggregate_table(graph, aggregator, around)
    assert table.is_sparse == graph.features.is_sparse
    np.testing.assert_allclose(dense(table), expected_table(graph, aggregator), rtol=1e-4, atol=1e-5)
    if isinstance(table, SparseFeatures):
        starts = np.zeros(len(table.indices), dtype=bool)
        starts[table.indptr[:-1][np.diff(table.indptr) > 0]] = True
        assert (starts | (np.diff(table.indices, prepend=-1) > 0)).all()  # ascending, so distinct, in each row
    assert all(not finding.problem for finding in verify(graph.folder))


def states(graph: Graph, config: TrainConfig, task: Task, folder, epochs: int = 2) -> dict[str, torch.Tensor]:
    with Trainer(graph, config, task, TrainerOptions(scratch=folder)) as trainer:
        for epoch in range(epochs):
            list(trainer.steps(epoch))
        return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


DEPTHS = pytest.mark.parametrize("fanouts", [(-1,), (-1, -1), (-1, -1, -1)], ids=len)


@DEPTHS
@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
@pytest.mark.parametrize("form", FORMS)
def test_training_then_sees_what_evaluation_sees(form, model, fanouts, graphs, tmp_path) -> None:
    graph, task = graphs[form], Task(model=model, hidden_channels=8, fanouts=fanouts)
    with Trainer(graph, FULL, task, TrainerOptions(scratch=tmp_path)) as trainer:
        trainer.model.eval()
        for batch in islice(trainer._pipeline.epoch(0), 2):
            blocks = blocks_of(batch, with_degrees=trainer.model.needs_degrees, whole=trainer._learner.table.degrees)
            found = trainer.model(batch.x, blocks, aggregated=True)
            seeds = batch.subgraph.n_id[: batch.num_seeds]
            whole = Inference(graph, np.sort(seeds), len(fanouts), scratch=Scratch(tmp_path))
            expected = torch.cat([part for _, part in whole.logits(trainer.model)])[np.argsort(np.argsort(seeds))]
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@DEPTHS
@pytest.mark.parametrize("model", ["sage", "gin"])  # of GCN's sampled graph, nodes of the last hop have no degree
@pytest.mark.parametrize("form", ["dense-float32", "sparse-float32"])
def test_full_is_what_sampling_all_neighbors_is(form, model, fanouts, graphs, tmp_path) -> None:
    task = Task(model=model, hidden_channels=8, fanouts=fanouts)
    runs = []
    for config in (FULL, FULL.replace(input_aggregation="sampled")):
        with Trainer(graphs[form], config, task, TrainerOptions(scratch=tmp_path)) as trainer:
            steps = list(islice(trainer.steps(0), 2))
            runs.append(([step.loss for step in steps], trainer.validate(), steps[0].sampled_edges))
    (full, full_accuracy, full_edges), (sampled, accuracy, edges) = runs
    assert full == pytest.approx(sampled, rel=2e-4)
    assert full_accuracy == pytest.approx(accuracy, abs=0.02)
    assert full_edges < edges


def test_one_hop_less_is_sampled_and_its_fanout_is_idle(small_folder_graph, tmp_path) -> None:
    task = Task(hidden_channels=8, fanouts=(4, 3))
    found = []
    for last in (3, 10):
        with Trainer(
            small_folder_graph,
            FULL,
            dataclasses.replace(task, fanouts=(4, last)),
            TrainerOptions(scratch=tmp_path),
        ) as trainer:
            step = next(trainer.steps(0))
            found.append((step.loss, step.input_nodes, step.sampled_edges))
            assert first_point(trainer) >= 1
    assert found[0] == found[1]
    assert found[0][2] <= 4 * FULL.batch_size


HOW = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@HOW
@given(
    form=st.sampled_from(FORMS),
    model=st.sampled_from(["sage", "gcn", "gin"]),
    layers=st.integers(1, 3),
    mode=st.sampled_from(["mode1", "mode2"]),
    workers=st.integers(1, 3),
    tier=st.sampled_from(["ram", "disk"]),
    policy=st.sampled_from([*STATIC_POLICIES, *DYNAMIC_POLICIES]),
    share=st.sampled_from([0.0, 0.2, 0.7, 3.0]),
    parts=st.sampled_from([1, 3]),
    dtype=st.sampled_from(COMPUTE_DTYPES),
)
def test_modes_workers_tiers_and_caches_change_no_bit(
    form, model, layers, mode, workers, tier, policy, share, parts, dtype, graphs, tmp_path
) -> None:
    graph, task = graphs[form], Task(model=model, hidden_channels=8, fanouts=(3,) * layers)
    plain = FULL.replace(num_partitions=parts, partitioner="random", compute_dtype=dtype)
    if graph.features.is_sparse and policy in DYNAMIC_POLICIES:
        policy = "degree"
    cache_bytes = int(share * graph.features.nbytes) + 4 * graph.num_nodes if share else 0
    other = plain.replace(
        parallel_mode=mode, num_workers=workers, feature_tier=tier, cache_policy=policy, cache_bytes=cache_bytes
    )
    assert other.learning_key() == plain.learning_key()
    one, two = (states(graph, config, task, tmp_path, epochs=1) for config in (plain, other))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_leaving_an_epoch_and_going_on_changes_no_bit(graphs, tmp_path) -> None:
    task = Task(model="gcn", hidden_channels=8, fanouts=(3, 3))
    found = []
    for cut in (None, 1):
        with Trainer(graphs["dense-float32"], FULL, task, TrainerOptions(scratch=tmp_path)) as trainer:
            list(islice(trainer.steps(0), cut))
            if cut is not None:
                trainer.validate()
                list(trainer.steps(0, start=cut))
            found.append({name: tensor.clone() for name, tensor in trainer.model.state_dict().items()})
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_training_and_evaluation_share_a_table(graphs, tmp_path) -> None:
    graph = graphs["dense-float32"]
    shutil.rmtree(graph.folder / "derived", ignore_errors=True)
    with Trainer(graph, FULL, Task(hidden_channels=8), TrainerOptions(scratch=tmp_path)) as trainer:
        before = (graph.derived("table-mean") / "rows.npy").stat().st_mtime_ns
        trainer.validate()
    assert [path.name for path in (graph.folder / "derived").glob("table-*")] == ["table-mean"]
    assert (graph.derived("table-mean") / "rows.npy").stat().st_mtime_ns == before


def test_a_cache_holds_rows_of_the_table(graphs, tmp_path) -> None:
    graph = graphs["dense-float32"]
    config = FULL.replace(cache_bytes=4 * graph.num_nodes + 50 * 4 * 32)  # a row of the mean's table has 2 x 16 columns
    with Trainer(graph, config, Task(hidden_channels=8), TrainerOptions(scratch=tmp_path)) as trainer:
        assert trainer.cache_bytes == config.cache_bytes
        assert len(trainer._pipeline.store.cached) == 50
        assert any(step.hits for step in trainer.steps(0))


def test_parts_are_trained_on_whole_neighborhoods(graphs, tmp_path) -> None:
    graph = graphs["dense-float32"]
    config = FULL.replace(num_partitions=3, partitioner="random")
    with Trainer(graph, config, Task(model="gin", hidden_channels=8), TrainerOptions(scratch=tmp_path)) as trainer:
        expected = expected_table(graph, "sum")
        for batch in trainer._pipeline.epoch(0):
            np.testing.assert_allclose(batch.x.numpy(), expected[batch.subgraph.n_id], rtol=1e-4, atol=1e-5)


def test_a_graph_in_ram_is_written_to_the_cache_folder_for_its_table(with_loops, tmp_path) -> None:
    task = Task(hidden_channels=8, fanouts=(3, 3))
    found = [states(graph, FULL, task, tmp_path, epochs=1) for graph in (with_loops, with_loops.on_disk())]
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


@pytest.mark.parametrize("model", ["gat", "gatv2", "transformer"])
def test_attention_has_no_table(model, graphs, tmp_path) -> None:
    task = Task(model=model, hidden_channels=8)
    with pytest.raises(ConfigError, match=rf"input_aggregation full needs an input layer .*got {model}, .*use sampled"):
        Trainer(graphs["dense-float32"], FULL, task, TrainerOptions(scratch=tmp_path))


def test_a_sparse_table_of_over_four_times_the_features_is_refused(sparse_graph, tmp_path) -> None:
    graph = sparse_graph.save(tmp_path / "graph")
    with pytest.raises(ConfigError, match=r"at most .* \(4 times the features of .*; use sampled"):
        Trainer(graph, FULL, Task(hidden_channels=8), TrainerOptions(scratch=tmp_path))
    assert not list((graph.folder / "derived").glob("table-*"))


def test_a_damaged_sparse_table_is_refused(graphs, tmp_path) -> None:
    graph = graphs["sparse-float32"]
    states(graph, FULL, Task(hidden_channels=8), tmp_path, epochs=0)
    path = graph.derived("table-mean") / "data.npy"
    content = bytearray(path.read_bytes())
    content[-3] ^= 64
    path.write_bytes(content)
    with pytest.raises(GraphError, match=r"table-mean is damaged: its data must have the hash .* delete it"):
        Trainer(graph, FULL, Task(hidden_channels=8), TrainerOptions(scratch=tmp_path))
    shutil.rmtree(path.parent)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("nodes=60000,features=512", id="dense"),
        pytest.param("nodes=120000,features=2000,density=0.02", id="sparse", marks=pytest.mark.weekly),
    ],
)
def test_a_table_is_written_in_memory_far_below_its_size(spec: str, tmp_path) -> None:
    # The high-water mark of anonymous memory counts no pages of files, which the system takes back when it wants.
    code = (
        "import re, sys, threading; from a3gnn.config import Task, TrainConfig\n"
        "from a3gnn.graphs.convert import convert\n"
        "from a3gnn.evaluation.input_table import input_table_seconds\n"
        "def anonymous(): return int(re.search(r'RssAnon:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "def make(name, spec):\n"
        "    graph = convert(f'synthetic:degree=3,{spec}', sys.argv[1] + name, 1 << 26)\n"
        "    return graph, Task(hidden_channels=8), TrainConfig()\n"
        "small = sys.argv[2].replace('0000', '00')\n"
        "input_table_seconds(*make('warm', small)); large = make('large', sys.argv[2]); before = peak = anonymous()\n"
        "ended = threading.Event()\n"
        "def watch():\n"
        "    global peak\n"
        "    while not ended.wait(0.005): peak = max(peak, anonymous())\n"
        "watcher = threading.Thread(target=watch); watcher.start()\n"
        "input_table_seconds(*large); ended.set(); watcher.join(); print(peak - before)"
    )
    arguments = [str(tmp_path / "graph-"), spec]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    table = tmp_path / "graph-large" / "derived" / "table-mean"
    taken = sum(path.stat().st_size for path in table.glob("*.npy"))
    shutil.rmtree(tmp_path / "graph-large")  # pytest keeps the folders of its last runs
    assert taken > 100 * 2**20
    assert int(done.stdout) * 1024 < taken / 2
