"""What people give to `Loader`: taken in any sensible form, else refused with what it must be and what it got."""

import json
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from a3gnn._fields import SCHEMA_VERSION
from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, ConfigError, DeviceError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer

CONFIG = TrainConfig(batch_size=30, parallel_mode="mode2", num_workers=2, feature_tier="disk")


def test_numbers_and_flags_may_be_numpys(tiny_graph: Graph) -> None:
    loader = Loader(
        tiny_graph,
        [np.int64(4), np.int32(-1)],
        batch_size=np.int64(50),
        num_workers=np.int64(1),
        seed=np.uint32(3),
        shuffle=np.True_,
        device=torch.device("cpu"),
    )
    plain = Loader(tiny_graph, [4, -1], batch_size=50, num_workers=1, seed=3, shuffle=True)
    assert all(torch.equal(one.n_id, other.n_id) for one, other in zip(loader, plain, strict=True))
    # A device of torch's is the same device: its mini-batches share buffers as those of "cpu" do.
    assert loader._pipeline._stages.buffers is not None


def test_no_shuffle_is_torchs_default(tiny_graph: Graph) -> None:
    loader = Loader(tiny_graph, [4], batch_size=300, shuffle=None)
    assert next(iter(loader)).input_id.tolist() == list(range(300))


class Tuned(NamedTuple):
    """What holds a configuration, as a `TunedConfig` and what `tune` returns do."""

    config: TrainConfig


@pytest.mark.parametrize("form", ["config", "dict", "file", "folder", "text", "holder"])
def test_the_config_may_be_a_dict_or_a_tuned_json(form: str, tiny_graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    path.write_text(json.dumps({"schema_version": SCHEMA_VERSION, "config": CONFIG.to_dict()}))
    forms = {"config": CONFIG, "dict": CONFIG.to_dict(), "file": path, "folder": tmp_path, "text": str(path)}
    forms["holder"] = Tuned(CONFIG)
    loader = Loader(tiny_graph, [4], config=forms[form])
    assert loader._pipeline._config == CONFIG
    assert Loader(tiny_graph, [4], batch_size=100, config=forms[form])._pipeline._config.batch_size == 100


def test_knobs_of_the_model_and_the_optimizer_are_left_to_apply(tiny_graph: Graph) -> None:
    config = TrainConfig(compute_dtype="bfloat16", learning_rate_scale=2.0, seed_fanout=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = next(iter(Loader(tiny_graph, [9, 4], config=config)))
    assert batch.x.dtype is torch.float32
    assert len(batch.num_sampled_nodes) == 3


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"batch_sise": 3}, "a field of TrainConfig must be one of .* did you mean 'batch_size'"),
        ({"batch_size": -3}, "batch_size must be an integer >= 1, got -3"),
        (42, "config must be a TrainConfig, a dict of its fields, a TunedConfig, or the path of a tuned.json, got 42"),
        (TrainConfig, "config must be a TrainConfig, .*, got <class"),
        ("nowhere.json", "can't read nowhere.json: No such file"),
    ],
)
def test_other_configs_are_refused(config: object, message: str, tiny_graph: Graph) -> None:
    with pytest.raises(UsageError, match=message):
        Loader(tiny_graph, [4], config=config)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, r"tuned\.json must be a complete tuned.json, but .* \('config'\)"),
        ({"config": 3}, r"tuned\.json must be a complete tuned.json, but a field is missing"),
        ({"config": {"batch_size": 0}}, r"tuned\.json: batch_size must be an integer >= 1, got 0"),
        ({"schema_version": 99}, r"tuned\.json must have schema version 1, got 99"),
    ],
)
def test_a_broken_tuned_json_is_named(fields: dict, message: str, tiny_graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    path.write_text(json.dumps({"schema_version": SCHEMA_VERSION} | fields))
    with pytest.raises(ConfigError, match=message):
        Loader(tiny_graph, [4], config=path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batch_size", 0, "batch_size must be an integer >= 1, got 0"),
        ("batch_size", 64.0, "batch_size must be an integer >= 1, got 64.0"),
        ("batch_size", "64", "batch_size must be an integer >= 1, got '64'"),
        ("batch_size", True, "batch_size must be an integer >= 1, got True"),
        ("num_workers", -1, "num_workers must be an integer >= 0, got -1; 0 loads each mini-batch on request"),
        ("num_workers", False, "num_workers must be an integer >= 0, got False"),
        ("num_workers", 2.0, "num_workers must be an integer >= 0, got 2.0"),
        ("seed", -1, "seed must be an integer >= 0, got -1"),
        ("seed", "a", "seed must be an integer >= 0, got 'a'"),
        ("seed", 1.5, "seed must be an integer >= 0, got 1.5"),
        ("seed", None, "seed must be an integer >= 0, got None"),
        ("shuffle", "no", "shuffle must be True or False, got 'no'"),
        ("drop_last", 1, "drop_last must be True or False, got 1"),
        ("adjs", [], r"adjs must be True or False, got \[\]"),
        ("transform", "lower", "transform must take a mini-batch and return another, got 'lower'"),
        ("device", "mps", "device must be cpu or cuda, got 'mps'"),
        ("device", "gpu", "device must be cpu or cuda, got 'gpu'"),
        ("device", None, "device must be cpu or cuda, got None"),
        ("device", torch.device("meta"), "device must be cpu or cuda, got device"),
        ("shufle", True, "an argument of Loader must be one of .* did you mean 'shuffle'"),
        ("num_worker", 2, "did you mean 'num_workers'"),
        ("others", 2, "an argument of Loader must be one of"),
    ],
)
def test_other_arguments_are_refused(name: str, value: object, message: str, tiny_graph: Graph) -> None:
    with pytest.raises(UsageError, match=message):
        Loader(tiny_graph, [4], **{name: value})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda")])
def test_a_gpu_that_is_not_there_is_a_device_error(device: object, tiny_graph: Graph) -> None:
    with pytest.raises(DeviceError, match="device is cuda, but torch finds no CUDA device here"):
        Loader(tiny_graph, [4], device=device)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_a_gpu_beyond_the_last_is_a_device_error(tiny_graph: Graph) -> None:
    with pytest.raises(DeviceError, match="device must be cuda:0 to cuda:"):
        Loader(tiny_graph, [4], device=f"cuda:{torch.cuda.device_count()}")


def test_the_trainer_refuses_other_devices_alike(small_folder_graph: Graph) -> None:
    with pytest.raises(UsageError, match="device must be cpu or cuda, got 'mps'"):
        Trainer(small_folder_graph, TrainConfig(), Task(), device="mps")


@pytest.mark.parametrize(
    "fanouts", [4, "44", {("a", "to", "b"): [4]}, [], [0], [-2], [2.7], [4, 3.0], [True], ["4"], [[4]], [None]]
)
def test_other_fanouts_are_refused(fanouts: object, tiny_graph: Graph) -> None:
    with pytest.raises(UsageError, match="num_neighbors must be"):
        Loader(tiny_graph, fanouts)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (np.array([]), "with at least one node"),
        (np.zeros(300, dtype=bool), "with at least one node"),
        (np.array([-1]), r"must be ids in \[0, 300\), got 1 from -1 to -1"),
        (np.array([300]), r"must be ids in \[0, 300\), got 1 from 300 to 300"),
        (torch.ones(300, dtype=torch.uint8), r"got 300 numbers of 0 and 1; .*give mask\.bool"),
        (np.array([0.5]), "must be node ids or a bool mask"),
        (np.array([[1]]), "must be node ids or a bool mask"),
        (np.array([True]), r"of shape \(300,\), got a mask of shape \(1,\)"),
        (torch.ones(300, 2, dtype=torch.bool), r"got a mask of shape \(300, 2\)"),
        (("paper", torch.ones(3)), "must be node ids or a bool mask"),
        ([[1, 2], [3]], "must be node ids or a bool mask"),
        (torch.eye(3).to_sparse(), "must be node ids or a bool mask"),
        ("train", "must be node ids or a bool mask"),
        ({1, 2}, "must be node ids or a bool mask"),
        (5, "must be node ids or a bool mask"),
    ],
    ids=range(15),
)
def test_other_input_nodes_are_refused(nodes: object, message: str, tiny_graph: Graph) -> None:
    with pytest.raises(UsageError, match=f"input_nodes .*{message}") as caught:
        Loader(tiny_graph, [4], nodes)
    assert len(str(caught.value)) < 200


def test_every_refusal_comes_before_the_graph_is_looked_at() -> None:
    """Partitions and caches take minutes on large graphs: a typing error must not."""
    nothing = Data()
    for wrong in ({"seed": -1}, {"shufle": True}, {"batch_size": 0}, {"transform": 3}, {"adjs": 2}, {"config": 42}):
        with pytest.raises(A3GNNError) as caught:
            Loader(nothing, [4], **wrong)
        assert next(iter(wrong))[:4] in str(caught.value)
