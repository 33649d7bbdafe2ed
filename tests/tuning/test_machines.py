"""The joint table of tunes on several kinds of machines; tests/profiling/cluster has such tunes for real."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a3gnn.hardware import Hardware
from a3gnn.measurement import Metrics
from a3gnn.objectives import Priority
from a3gnn.profiling.request import TrialRequest
from a3gnn.tuning.machines import TunedMachine, machines_lines, ranked, why_no_best
from a3gnn.tuning.outcome.kept_tune import ToldTune
from a3gnn.tuning.outcome.result import TuneResult
from tests.tuning.formulas import Formulas

Tuned = Callable[..., TunedMachine]


@pytest.fixture
def tuned(
    quick_tune: Callable[..., TuneResult], formulas: Callable[..., Formulas], hardware: Hardware, tmp_path: Path
) -> Tuned:
    """Tunes on a made-up machine of so many times the usual speed."""

    def run(label: str, speed: float, **options: Any) -> TunedMachine:
        def alter(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
            faster = {
                "throughput_epochs_per_s": speed * metrics.throughput_epochs_per_s,
                "throughput_replicates": tuple(speed * one for one in metrics.throughput_replicates),
            }
            return dataclasses.replace(metrics, **faster)

        machine, folder = dataclasses.replace(hardware, label=label), tmp_path / label
        quick_tune(executor=formulas(alter), hardware=machine, out=folder, **options)
        return TunedMachine(label, folder, ToldTune.read(folder, 0), "")

    return run


def test_the_best_machine_comes_first_and_those_without_a_choice_last(tuned: Tuned, tmp_path: Path) -> None:
    slow, fast = tuned("slow", 1.0), tuned("fast", 3.0)
    lost = TunedMachine("lost", tmp_path, None, "no machine of the kind lost is left in the cluster")
    assert ranked([lost, slow, fast]) == [fast, slow, lost]
    lines = list(machines_lines([lost, slow, fast]))
    title = lines.index("")
    assert " ".join(lines[:title]).endswith("by the priority time: best on fast")
    assert [line.split()[0] for line in lines[title + 1 : title + 4]] == ["machine", "fast", "slow"]
    assert "  a3gnn train " in "\n".join(lines)
    assert "lost: nothing was chosen: no machine of the kind lost is left in the cluster" in lines
    assert all(len(line) <= 80 for line in lines if str(tmp_path) not in line)
    assert [machine.to_dict()["machines"] for machine in ranked([slow, fast])] == ["fast", "slow"]


def test_no_machine_is_called_the_best_by_seconds_to_a_lower_target(tuned: Tuned) -> None:
    slow, fast = (tuned(label, 1.0, priority="time") for label in ("slow", "fast"))
    assert why_no_best([slow, fast]) == ""
    lower = _with(slow, target=0.5, seconds=1.0)  # its default was trained less far
    higher = _with(fast, target=0.625, seconds=2.0)
    assert ranked([higher, lower]) == [lower, higher]
    why = why_no_best([higher, lower])
    assert why.startswith("the accuracy whose seconds are compared is another on each")
    assert why.endswith("tune again with target_accuracy=62.5")
    text = " ".join(machines_lines([higher, lower]))
    assert "by the priority time: none is called the best: the accuracy whose" in text
    assert "best on" not in text
    # The one with the higher target is the best where it is the first to reach even that.
    sooner = _with(fast, target=0.625, seconds=0.5)
    assert ranked([lower, sooner]) == [sooner, lower]
    assert why_no_best([lower, sooner]) == ""


def test_memory_of_a_device_is_not_compared_with_that_of_a_host(tuned: Tuned) -> None:
    host, fast = tuned("host", 1.0), tuned("fast", 1.01)
    device = _with(fast, device="a GPU", memory="peak_device_bytes", peak_device_bytes=1 << 60)
    assert ranked([host, device]) == [device, host]  # by speed alone
    assert why_no_best([host, device]) == ""
    assert ranked([host, fast]) == [fast, host]
    by_memory = [_with(one, priority=Priority.parse("memory")) for one in (host, device)]
    assert why_no_best(by_memory).startswith("memory is the device's on some and the host's on others")
    assert why_no_best(by_memory[:1]) == ""


def _with(machine: TunedMachine, **changes: Any) -> TunedMachine:
    """`machine` as if its choice, target, device or priority were another."""
    tune = machine.tune
    assert tune is not None
    renamed = {"seconds_to_accuracy": changes.get("seconds"), "peak_device_bytes": changes.get("peak_device_bytes")}
    figures = {name: value for name, value in renamed.items() if value is not None}
    rows = tuple(
        dataclasses.replace(row, measured=dataclasses.replace(row.measured, **figures)) for row in tune.front.rows
    )
    front = {name: changes[name] for name in ("target", "memory") if name in changes}
    hardware = dataclasses.replace(
        tune.setting.hardware,
        device=changes.get("device", ""),
        num_devices=int("device" in changes),
        device_memory_bytes=1 << 40,
    )
    request = dataclasses.replace(tune.request, priority=changes.get("priority", tune.request.priority))
    altered = dataclasses.replace(
        tune,
        front=dataclasses.replace(tune.front, rows=rows, **front),
        setting=dataclasses.replace(tune.setting, hardware=hardware),
        request=request,
    )
    return machine._replace(tune=altered)
