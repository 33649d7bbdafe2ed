"""Fixtures for every package's tests: graphs of three sizes, a cache folder that is thrown away, and a worker."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from a3gnn._imports import importing
from a3gnn.cli import main as entry_point
from a3gnn.config import TrainConfig
from a3gnn.evaluation import references
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.launch import QUICK_VARIABLE
from a3gnn.limits import Limits
from a3gnn.machine import probe
from a3gnn.machine.host import host_with
from a3gnn.measurement import MEASUREMENT_VERSION, Failure, Measurement, Metrics, StageSeconds
from a3gnn.models.layers.block import LayerBlock
from a3gnn.process.worker import Ended, Worker
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.training import compile_ahead
from a3gnn.training.request import this_machine as the_machine
from a3gnn.training.tuned import TunedConfig
from tests.curves import TWO_CORES, made_metrics, rising_curve
from tests.once import made_once
from tests.own_models import Package

# A shell that starts the tests in the background has them ignore Ctrl-C, which several of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Other work may have the cores for a while: how long an example takes decides nothing.
settings.register_profile("a3gnn", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("a3gnn")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Excludes what is collected from searches for garbage, which tests also start: they would visit every test."""
    with importing():
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deals the tests to pytest-xdist's workers, slow ones first and those of long files, which are short, last.

    `--dist worksteal` gives each worker a run of the tests, and moves the end of a run to a worker that has none left.
    So what is moved is short, and files whose tests share something expensive stay together.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers == 1:
        return
    files: dict[tuple[bool, Path], list[pytest.Item]] = {}
    for item in items:
        files.setdefault((item.get_closest_marker("slow") is None, item.path), []).append(item)
    hands: list[list[pytest.Item]] = [[] for _ in range(workers)]
    sizes = [len(items) * (at + 1) // workers - len(items) * at // workers for at in range(workers)]
    for _, tests in sorted(files.items(), key=lambda one: (one[0][0], len(one[1]))):
        while tests:
            at = min((at for at in range(workers) if len(hands[at]) < sizes[at]), key=lambda at: len(hands[at]))
            room = sizes[at] - len(hands[at])
            hands[at] += tests[:room]
            tests = tests[room:]
    items[:] = [item for hand in hands for item in hand]


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where converted graphs go while tests run, in this process and in those it starts.

    They share a lock file of their own: what else runs on this machine keeps no test waiting.
    """
    folder = tmp_path_factory.mktemp("cache")
    # Whichever worker first fits a surrogate to the shipped measurements, or probes the machine, does so for all.
    for name in ("surrogates", "hardware"):
        (folder / name).symlink_to(made_once(tmp_path_factory, name, lambda empty: None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("A3GNN_CACHE", str(folder))
        patch.setenv("A3GNN_MACHINE_LOCK", str(folder / "machine.lock"))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def no_names_of_ours() -> Iterator[None]:
    """What whoever runs the tests calls the machine, or has servers ask for, is not what is tested."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("A3GNN_MACHINE_LABEL", "A3GNN_TOKEN", "A3GNN_PARTS_TOKEN"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_trials() -> Iterator[None]:
    """Tunes in processes that tests start measure as little as they can (`a3gnn.launch`).

    This process has imported a3gnn before, so that tunes in it have whole trials and verifications: most of them by
    formulas. What a probe of the machine found is checked by neither: beside other tests it seems to change.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(QUICK_VARIABLE, "1")
        patch.setattr(probe, "QUICK", True)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_models_of_rows() -> Iterator[None]:
    """No training and no tune trains models without a graph network beside its own: their own tests do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(references, "_TRAINED", False)
        yield


@pytest.fixture(scope="session", autouse=True)
def commands_end_later() -> Iterator[None]:
    """A command in this process never ends it at once, as it would where an earlier test left a trainer's thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry_point, "end", lambda code, *, at_once: sys.exit(code))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors gain nothing from threads, and on a busy machine their barriers cost a hundredfold."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def kernels_compile_here() -> Iterator[None]:
    """What tests train and tune in this process compiles what it needs here, once: not a set per configuration."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_ahead, "is_compiled", lambda wanted: True)
        yield


@pytest.fixture(scope="session")
def tiny_graph() -> Graph:
    """300 nodes, about 2,000 edges, 16 dense features, 4 classes; in RAM."""
    return Graph.load("synthetic:nodes=300,degree=8,classes=4,features=16")


@pytest.fixture(scope="session")
def tiny_folder_graph(tiny_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """`tiny_graph`, opened by memory map from a converted folder."""
    return tiny_graph.save(tmp_path_factory.mktemp("graphs") / "tiny")


@pytest.fixture(scope="session")
def unbalanced_graph(tiny_graph: Graph) -> Graph:
    """`tiny_graph` with two classes, of which three quarters of the nodes have one; in RAM."""
    labels = (tiny_graph.labels == 0).astype(np.int64)
    return dataclasses.replace(tiny_graph, labels=labels, num_classes=2)


@pytest.fixture(scope="session")
def labels_graph(tiny_graph: Graph) -> Graph:
    """`tiny_graph` with four labels, of which nodes have their class's and the next two; some have none.

    Every tenth test node is unlabeled.
    """
    labels = sum(np.eye(4, k=after, dtype=np.int8) for after in range(3))[tiny_graph.labels]
    labels[200::7] = 0
    labels[tiny_graph.test_ids[::10]] = -1
    return dataclasses.replace(tiny_graph, labels=labels)


@pytest.fixture(scope="session")
def values_graph(tiny_graph: Graph) -> Graph:
    """`tiny_graph` whose nodes have the value of their class and some noise; every tenth test node is unlabeled."""
    noise = np.random.default_rng(0).normal(scale=0.2, size=tiny_graph.num_nodes)
    values = (np.array([-3.0, 0.0, 2.0, 7.0])[tiny_graph.labels] + noise).astype(np.float32)
    values[tiny_graph.test_ids[::10]] = np.nan
    return dataclasses.replace(tiny_graph, labels=values, num_classes=1)


@pytest.fixture(scope="session")
def small_graph() -> Graph:
    """2,000 nodes, about 17,500 edges, 32 dense features, 5 classes; in RAM."""
    return Graph.load("synthetic:nodes=2000,degree=10,classes=5,features=32")


@pytest.fixture(scope="session")
def small_folder_graph(small_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """`small_graph`, opened by memory map from a converted folder."""
    return small_graph.save(tmp_path_factory.mktemp("graphs") / "small")


@pytest.fixture(scope="session")
def sparse_graph() -> Graph:
    """300 nodes with 200 CSR features, a tenth of them stored; in RAM."""
    return Graph.load("synthetic:nodes=300,degree=8,classes=4,features=200,density=0.1")


@pytest.fixture(scope="session")
def valued_graph(small_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """`small_graph` with 3 attributes and a weight per edge, and a self loop of each tenth node; in a folder."""
    data, rng = small_graph.to_pyg(), np.random.default_rng(0)
    loops = torch.arange(0, small_graph.num_nodes, 10).expand(2, -1)
    data.edge_index = torch.cat([data.edge_index, loops], dim=1)
    data.edge_attr = torch.from_numpy(rng.normal(size=(data.num_edges, 3)))
    data.edge_weight = torch.from_numpy(rng.random(data.num_edges))
    return Graph.from_pyg(data, "valued").save(tmp_path_factory.mktemp("graphs") / "valued")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real graphs ($A3GNN_DATA or ../shared/data); tests that need it are skipped without."""
    repository = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("A3GNN_DATA") or repository.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real graphs: {folder} is not a folder; set A3GNN_DATA to one")
    return folder


@pytest.fixture(scope="session")
def typed_folder(data_folder: Path) -> Path:
    """The folder of real typed graphs beside that of other real graphs; tests that need it are skipped without."""
    folder = data_folder.with_name("data-typed")
    if not folder.is_dir():
        pytest.skip(f"no real typed graphs: {folder} is not a folder")
    return folder


@pytest.fixture
def make_metrics() -> Callable[..., Metrics]:
    """Makes `Metrics` of a throughput, a host memory and an accuracy (`made_metrics`)."""
    return made_metrics


@pytest.fixture(scope="session")
def hardware() -> Hardware:
    """A machine of two cores, for tests that only need one."""
    return TWO_CORES


@pytest.fixture(scope="session")
def chores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder from which the processes of `worker` import: `tests/process/chores.py`, and what tests add."""
    folder = tmp_path_factory.mktemp("chores")
    shutil.copy(Path(__file__).parent / "process" / "chores.py", folder)
    return folder


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of each `package`, from which processes of `examiner` import, too."""
    return tmp_path_factory.mktemp("packages")


@pytest.fixture(scope="session")
def worker(chores: Path) -> Iterator[Worker]:
    """A worker whose processes can import from `chores`."""
    with pytest.MonkeyPatch.context() as patch, Worker() as started:
        patch.setattr(sys, "path", [*sys.path, str(chores)])
        yield started


class _WithPyG(Worker):
    """A worker whose server imports PyG, so that its processes, which examine models, need not: it takes seconds."""

    def run(self, entry: str, argument: dict[str, Any], **options: Any) -> Ended:
        return super().run(entry, argument, **options | {"imports": ("torch_geometric.nn",)})


@pytest.fixture(scope="session")
def examiner(packages: Path) -> Iterator[Worker]:
    """The worker that examines models of each `package`."""
    with pytest.MonkeyPatch.context() as patch, _WithPyG() as started:
        patch.setattr(sys, "path", [*sys.path, str(packages)])
        yield started


@pytest.fixture(scope="session")
def this_machine() -> Hardware:
    """This machine's processor, with limits that were not measured."""
    limits = MachineProfile(1e8, 1e10, 1e9, 1e10, 1e10, 0.8, 1e-3, 150 << 20)
    return host_with(limits)


@pytest.fixture(scope="session")
def metrics() -> Metrics:
    """What a trial might find."""
    return Metrics(
        throughput_epochs_per_s=2.5,
        peak_host_bytes=300 << 20,
        peak_device_bytes=0,
        resident_file_bytes=40 << 20,
        test_accuracy=None,
        val_accuracy=None,
        accuracy_epochs=0,
        timed_batches=12,
        batches_per_epoch=4,
        epoch_overhead_s=0.001,
        stage_seconds=StageSeconds(sample=0.01, gather=0.02, transfer=0.0, train=0.07),
        cache_hit_rate=0.25,
        cache_bytes=1000,
        input_nodes_per_batch=120.0,
        sampled_edges_per_batch=800.5,
        throughput_replicates=(2.4, 2.5, 2.75),
        disturbed_windows=1,
        setup_seconds=0.5,
        curve=rising_curve(0.8),
        curve_train_seconds=3.5,
        curve_eval_seconds=0.25,
        curve_first=rising_curve(0.8).batches[0],
    )


@pytest.fixture(scope="session")
def measurement(tiny_graph: Graph, this_machine: Hardware, metrics: Metrics) -> Callable[..., Measurement]:
    """Makes a measurement of a configuration; outcome and budget can be given."""

    def make(
        config: TrainConfig, outcome: Metrics | Failure = metrics, task: Task | None = None, budget: int = 0
    ) -> Measurement:
        return Measurement(
            config=config.canonical(),
            setting=Setting(task or Task(), tiny_graph.characteristics(), this_machine),
            outcome=outcome,
            accuracy_budget=budget,
            seconds=4.5,
            version=MEASUREMENT_VERSION,
            created="2025-01-02T03:04:05+00:00",
        )

    return make


@pytest.fixture(autouse=True)
def the_same_draws() -> None:
    """Whatever a process has tested before, torch draws the same for a test."""
    torch.manual_seed(0)


#: Each package has a name of its own: what one test imports, no other finds.
_NUMBERS = count()


@pytest.fixture
def package(packages: Path, examiner: Worker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """A package of the user's, in a folder that Python imports from.

    Its models are examined in processes of `examiner`: a server of processes takes seconds to start.
    """
    name = f"mine{next(_NUMBERS)}"
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setattr("a3gnn.training.examine.Worker", lambda: nullcontext(examiner))
    yield Package(name, packages / name)
    for module in [one for one in sys.modules if one.partition(".")[0] == name]:
        del sys.modules[module]


MakeBlock = Callable[..., LayerBlock]


@pytest.fixture
def make_block() -> MakeBlock:
    """Returns a maker of random blocks whose destinations are the first sources, with self loops and empty rows."""

    def make(num_dst: int, num_src: int, num_edges: int = 60, seed: int = 0) -> LayerBlock:
        rng = np.random.default_rng(seed)
        rows = rng.integers(0, num_dst, num_edges)
        rows[rows == num_dst // 2] = 0
        pairs = np.unique(np.stack([np.append(rows, 1), np.append(rng.integers(0, num_src, num_edges), 1)]), axis=1)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(pairs[0], minlength=num_dst))])
        degrees = np.bincount(pairs[0, pairs[0] != pairs[1]], minlength=num_src)
        return LayerBlock(
            torch.from_numpy(indptr.astype(np.int32)),
            torch.from_numpy(pairs[1].astype(np.int32)),
            num_src,
            slice(0, num_dst),
            torch.from_numpy(degrees.astype(np.float32)),
        )

    return make


@pytest.fixture
def task() -> Task:
    """A small task that learns the small graph in a few epochs."""
    return Task(hidden_channels=32, fanouts=(10, 5), learning_rate=0.01)


@pytest.fixture
def write_tuned(
    small_folder_graph: Graph, task: Task, tmp_path: Path, hardware: Hardware, make_metrics: Callable[..., Metrics]
) -> Callable[..., Path]:
    """Returns a writer of a tuned.json for the small graph on this machine; keywords replace its fields."""

    def write(**changes: Any) -> Path:
        tuned = TunedConfig(
            config=TrainConfig(batch_size=256),
            setting=Setting(task, small_folder_graph.characteristics(), the_machine(hardware.profile)),
            spec=str(small_folder_graph.folder),
            limits=Limits(host_bytes=4 * 2**30),
            predicted={"throughput_epochs_per_s": {"mean": 20.0, "low": 10.0, "high": 30.0}},
            measured=make_metrics(throughput=25.0, host=300 * 2**20, accuracy=0.6),
        )
        path = tmp_path / "tuned.json"
        dataclasses.replace(tuned, **changes).write(path)
        return path

    return write
