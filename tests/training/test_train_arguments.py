"""What people give to `train`: refused, where it is not what it must be, before anything is made."""

from __future__ import annotations

import pytest

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import MemoryLimitError, UsageError
from a3gnn.task import Task

CONFIG = TrainConfig(batch_size=128)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("epochs", 0, "epochs must be an integer >= 1, got 0"),
        ("epochs", 2.5, "epochs must be an integer >= 1, got 2.5"),
        ("epochs", "3", "epochs must be an integer >= 1, got '3'"),
        ("epochs", True, "epochs must be an integer >= 1, got True"),
        ("patience", 0, "patience must be an integer >= 1, got 0; None never stops early"),
        ("patience", 1.5, "patience must be an integer >= 1, got 1.5"),
        ("patience", "never", "patience must be an integer >= 1, got 'never'; None never stops early"),
        ("host_memory_limit", 0, "host_memory_limit must be an integer >= 1, got 0; bytes, or text such as 4GiB"),
        ("host_memory_limit", -5, "host_memory_limit must be an integer >= 1, got -5"),
        ("host_memory_limit", 1.5, "host_memory_limit must be an integer >= 1, got 1.5"),
        ("host_memory_limit", "much", "host_memory_limit: a size is a number with a unit"),
        ("out", 3, "out must be a path, got 3"),
        ("resume", "yes", "resume must be True or False, got 'yes'"),
        ("progress", None, "progress must be True or False, got None"),
        ("task", {"model": "gcn"}, "task must be a Task, got .*; Task.from_dict makes one from a dict"),
        ("task", "gcn", "task must be a Task, got 'gcn'"),
        ("notify", 3, "notify must take a line of text, got 3; lambda line: None prints nothing"),
        (
            "config",
            42,
            "config must be a TrainConfig, a dict of its fields, a TunedConfig, or the path of a tuned.json, got 42",
        ),
        ("config", None, "config must be a TrainConfig, .*, got None"),
        ("config", {"batch_sise": 3}, "did you mean 'batch_size'"),
    ],
)
def test_other_arguments_are_refused(name, value, message, small_folder_graph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        train(**{"config": CONFIG, "dataset": small_folder_graph, name: value})
    assert not list(tmp_path.iterdir())


def test_a_dict_is_a_configuration_and_text_a_size(small_folder_graph, task, tmp_path):
    config = {"batch_size": 128, "parallel_mode": "mode1"}
    result = train(config, small_folder_graph, task=task, epochs=1, out=tmp_path / "run", host_memory_limit="64GiB")
    assert result.config == TrainConfig(**config)
    with pytest.raises(MemoryLimitError, match=r"must keep to 1.00 MiB"):
        train(config, small_folder_graph, task=Task(), epochs=1, out=tmp_path / "small", host_memory_limit="1MiB")
