"""The joint table of tunes on several kinds of machines; tests/profiling/cluster has such tunes for real."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn.hardware import Hardware
from a3gnn.measurement import Metrics
from a3gnn.profiling.trial.request import TrialRequest
from a3gnn.tuning.machines import TunedMachine
from a3gnn.tuning.machines_lines import machines_lines, ranked
from a3gnn.tuning.outcome.told_tune import ToldTune
from a3gnn.tuning.result import TuneResult
from tests.tuning.formulas import Formulas

Tuned = Callable[[str, float], TunedMachine]


@pytest.fixture
def tuned(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas], hardware: Hardware, tmp_path: Path
) -> Tuned:
    """Tunes on a made-up machine of so many times the usual speed."""

    def run(label: str, speed: float) -> TunedMachine:
        def alter(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
            faster = {
                "throughput_epochs_per_s": speed * metrics.throughput_epochs_per_s,
                "throughput_replicates": tuple(speed * one for one in metrics.throughput_replicates),
            }
            return dataclasses.replace(metrics, **faster)

        machine, folder = dataclasses.replace(hardware, label=label), tmp_path / label
        quick_tune(executor=formulas(alter), hardware=machine, out=folder)
        return TunedMachine(label, folder, ToldTune.read(folder, 0), "")

    return run


def test_the_best_machine_comes_first_and_those_without_a_choice_last(tuned: Tuned, tmp_path: Path) -> None:
    slow, fast = tuned("slow", 1.0), tuned("fast", 3.0)
    lost = TunedMachine("lost", tmp_path, None, "no machine of the kind lost is left in the cluster")
    assert ranked([lost, slow, fast]) == [fast, slow, lost]
    lines = list(machines_lines([lost, slow, fast]))
    title = lines.index("")
    assert " ".join(lines[:title]).endswith("by the priority throughput: best on fast")
    assert [line.split()[0] for line in lines[title + 1 : title + 4]] == ["machine", "fast", "slow"]
    assert "  a3gnn train --config" in "\n".join(lines)
    assert "lost: nothing was chosen: no machine of the kind lost is left in the cluster" in lines
    assert all(len(line) <= 80 for line in lines if str(tmp_path) not in line)
    assert [machine.to_dict()["machines"] for machine in ranked([slow, fast])] == ["fast", "slow"]
