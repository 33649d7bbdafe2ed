"""`recommend_first` and its process, with the shipped profiles."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, InfeasibleError
from a3gnn.graphs.graph import Graph
from a3gnn.process import child
from a3gnn.task import Task
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning import recommend as recommending
from a3gnn.tuning import recommend_first as recommending_first
from a3gnn.tuning.recommend_first import recommend_apart, recommend_first
from tests.shipped import shipped

TASK = Task(hidden_channels=8)


def test_the_recommendation_does_without_what_does_not_fit(
    small_folder_graph: Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked, original = list[tuple[str, str]](), recommending.recommend

    def limited(*args: Any, fix: dict[str, Any], **options: Any) -> object:
        asked.append((fix["input_aggregation"], fix["compute_dtype"]))
        if asked[-1] != ("sampled", "float32"):
            raise InfeasibleError("nothing is predicted to keep 1 MiB")
        return original(*args, fix=fix | {"num_workers": 1}, **options)

    monkeypatch.setattr(recommending, "recommend", limited)
    lines: list[str] = []
    recommend_first(small_folder_graph, TASK, None, tmp_path, lines.append)
    dtype = asked[0][1]  # not everywhere bfloat16
    assert asked == [*dict.fromkeys([("full", dtype), ("sampled", dtype), ("sampled", "float32")])]
    assert lines.count("nothing is predicted to keep 1 MiB") == len(asked) - 1
    config = TunedConfig.read(tmp_path).config
    assert config.learning_key() == TrainConfig().learning_key()
    assert config.num_workers == 1


def test_an_interrupted_process_is_gone_and_the_next_one_recommends_what_this_one_does(
    small_folder_graph: Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started, original = list[subprocess.Popen[bytes]](), recommending_first.start_program

    def start(module: str, order: dict[str, Any]) -> subprocess.Popen[bytes]:
        started.append(original(module, order))
        return started[-1]

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recommending_first, "start_program", start)
    monkeypatch.setattr(recommending, "shipped_measurements", lambda typed: shipped(150))  # as in quick processes
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "left").touch()  # by a process that was killed as it wrote
    with pytest.raises(KeyboardInterrupt):
        recommend_apart(small_folder_graph, TASK, 8 << 30, tmp_path / "new", interrupt)
    assert started[0].returncode == -signal.SIGKILL
    lines: list[str] = []
    recommend_apart(small_folder_graph, TASK, 8 << 30, tmp_path / "new", lines.append)
    recommend_first(small_folder_graph, TASK, 8 << 30, tmp_path / "here", lambda line: None)
    apart, here = (TunedConfig.read(tmp_path / name) for name in ("new", "here"))
    # Memory of an idle trial is measured anew by each.
    compared = [
        (found.config, found.setting.task, found.setting.graph, found.setting.hardware.fingerprint)
        for found in (apart, here)
    ]
    assert compared[0] == compared[1]
    assert lines


def test_any_other_error_is_one_line(
    small_folder_graph: Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    original = recommending_first.start_program
    monkeypatch.setattr(
        recommending_first, "start_program", lambda module, order: original(module, dict(order, folder=3))
    )
    with pytest.raises(A3GNNError, match=r"no configuration could be recommended: .*Error"):
        recommend_apart(small_folder_graph, TASK, 8 << 30, tmp_path / "new", lambda line: None)


def test_its_error_is_passed_on(small_folder_graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(A3GNNError, match="the host memory limit must exceed"):
        recommend_apart(small_folder_graph, TASK, 1 << 20, tmp_path / "new", lambda line: None)
    assert not (tmp_path / "new" / "tuned.json").exists()


def test_a_process_that_dies_is_an_error(
    small_folder_graph: Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    killed = child.ChildProgram([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], {})
    monkeypatch.setattr(child, "as_program", lambda module: killed)
    with pytest.raises(A3GNNError, match="the process that recommends a configuration ended with signal SIGKILL"):
        recommend_apart(small_folder_graph, TASK, None, tmp_path / "new", lambda line: None)
