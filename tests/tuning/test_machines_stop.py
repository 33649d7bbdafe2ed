"""Tunes on several kinds of machines, as they are stopped and resumed; those of tests/profiling/cluster are real."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from a3gnn.errors import UsageError
from a3gnn.profiling.executor_choice import ExecutorChoice
from a3gnn.tuning import machines
from a3gnn.tuning.machines import MachineTune, tune_machines
from a3gnn.tuning.study.budget import ask_to_stop, stop_is_asked


class LateTune:
    """Makes its folder after so many looks at it, as one that probes its machine first, and ends once it is told."""

    def __init__(self, folder: Path, looks: int) -> None:
        self.folder, self._looks = folder, looks

    def ended(self, patience_s: float) -> bool:
        self._looks -= 1
        if self._looks == 0:
            self.folder.mkdir()
            (self.folder / "request.json").touch()
        assert self._looks > -10, "it was never told"
        return stop_is_asked(self.folder)

    def end(self) -> None:
        pass


def test_a_stop_that_comes_before_the_folder_of_a_tune_ends_it_too(tmp_path: Path) -> None:
    tunes = [LateTune(tmp_path / name, looks) for name, looks in (("fast", 1), ("slow", 5))]
    ask_to_stop(tmp_path)
    machines._follow(cast("list[MachineTune]", tunes), tmp_path)
    assert not stop_is_asked(tmp_path)


def test_what_holds_no_tune_is_not_resumed(tmp_path: Path) -> None:
    choice = ExecutorChoice("ray", machines="all")
    with pytest.raises(UsageError, match="it holds no tune on fast or slow; run a3gnn tune --out"):
        tune_machines(choice, ["fast", "slow"], tmp_path / "mistyped", {}, resume=True)
    assert not list(tmp_path.iterdir())
