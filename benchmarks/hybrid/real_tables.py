"""Tables of what real trainers take on this machine's processors, and of how far the performance model is off."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from a3gnn.graphs.graph import Graph
from a3gnn.machine.other_work import OtherWork
from a3gnn.machine.probe import probe_hardware
from a3gnn.task import Task
from benchmarks.engine.graphs import spec_of
from benchmarks.hybrid.real import COMPARED, PREDICTED, STAGES, Division, Measured, measure
from benchmarks.hybrid.real_error import Errors, errors, probed_model
from benchmarks.report import median_and_range

#: Dense features, 767, 64 and 10 of them.
GRAPHS = ("amazon_computers", "synthetic:nodes=40000", "tolokers")
_ITERATION = STAGES.index("iteration")
_DIVISIONS = (*COMPARED, *(one for one in PREDICTED if one not in COMPARED))


def real_tables(
    graphs: Sequence[str], models: Sequence[str], rounds: int, refresh: bool, path: Path | None
) -> Iterator[Table]:
    """Measures, and yields the epochs, then the errors in short and one by one.

    Args:
        graphs: Names or specs; none are `GRAPHS`.
        models: Of the built-in models.
        rounds: Epochs of each division, after one to warm up.
        refresh: Whether the machine is probed anew.
        path: Where what was measured is written as JSON; None writes nothing.
    """
    hardware = probe_hardware(refresh, notify=print)
    others, found, missed = OtherWork(), {}, {}
    for name in graphs or GRAPHS:
        graph = Graph.load(spec_of(name))
        for model in models:
            task, label = Task(model=model), f"{name} {model}"
            print(f"measuring {label}", flush=True)
            found[label] = measure(graph, task, _DIVISIONS, rounds)
            missed[label] = errors(probed_model(hardware, graph, task), hardware.num_cores, found[label])
    print(f"other work took {others.cores():.1f} of {hardware.num_cores} cores meanwhile")
    if path is not None:
        path.write_text(json.dumps(_written(found, missed), indent=1) + "\n", encoding="utf-8")
    yield epochs_table(found)
    yield errors_table([one for rows in missed.values() for one in rows])
    yield runs_table(found, missed)


def epochs_table(found: Mapping[str, Mapping[Division, Measured]]) -> Table:
    """Returns seconds per epoch and MTEPS of one trainer with two threads, and of two with one each beside it."""
    columns = ("cpu:2, s per epoch", "cpu:1,cpu:1", "over cpu:2", "MTEPS of cpu:2", "of cpu:1,cpu:1")
    table = Table("measured", *columns, title="median (range) over epochs that alternate")
    for label, divisions in found.items():
        for one, two in zip(COMPARED[::2], COMPARED[1::2], strict=True):
            before, after = divisions[one], divisions[two]
            ratios = [now / then for now, then in zip(after.epochs, before.epochs, strict=True)]
            table.add_row(
                label + (", a worker ahead" if one.mode == "mode1" else ""),
                *(median_and_range(seconds, 3) for seconds in (before.epochs, after.epochs)),
                median_and_range(ratios),
                *(median_and_range(edges, 1) for edges in (before.mteps, after.mteps)),
            )
    return table


def errors_table(rows: Sequence[Errors]) -> Table:
    """Returns the median and the largest error of each stage, of all runs, before and after calibration."""
    runs = sum(one.calibrated is not None for one in rows)
    table = Table(
        *("measured", "the probe's constants", "one run of cpu:1 measured"),
        title=f"error of the performance model, median / largest, {len(rows)} runs and {runs} of them calibrated",
    )
    for place, stage in enumerate(STAGES):
        raw = [one.raw[place] for one in rows]
        after = [one.calibrated[place] for one in rows if one.calibrated is not None]
        table.add_row(stage, _spread(raw), _spread(after))
    return table


def runs_table(found: Mapping[str, Mapping[Division, Measured]], missed: Mapping[str, Sequence[Errors]]) -> Table:
    """Returns the measured milliseconds of each stage, and the iteration's errors, run by run."""
    columns = ("error", "calibrated", "CPU")
    table = Table("measured, ms", "seeds", *STAGES, *columns, title="per mini-batch, medians")
    for label, rows in missed.items():
        for one in rows:
            stages = (_text(1e3 * seconds, ".2f") for seconds in found[label][one.division].stage_seconds)
            after = one.calibrated or [float("nan")] * len(STAGES)
            missed_by = (_text(error, "+.0%") for error in (one.raw[_ITERATION], after[_ITERATION], after[-1]))
            table.add_row(label, str(one.division), *stages, *missed_by)
    return table


def _spread(errors: Sequence[float]) -> str:
    known = sorted(abs(error) for error in errors if not math.isnan(error))
    return f"{statistics.median(known):.1%} / {known[-1]:.1%}" if known else ""


def _text(value: float, form: str) -> str:
    return "" if math.isnan(value) else format(value, form)


def _known(values: Sequence[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]


def _written(
    found: Mapping[str, Mapping[Division, Measured]], missed: Mapping[str, Sequence[Errors]]
) -> dict[str, Any]:
    return {
        label: {
            "measured": {
                str(one): {"epoch_s": own.epochs, "mteps": own.mteps, "stage_s": _known(own.stage_seconds)}
                for one, own in divisions.items()
            },
            "errors": {
                str(one.division): {"raw": _known(one.raw), "calibrated": one.calibrated and _known(one.calibrated)}
                for one in missed[label]
            },
        }
        for label, divisions in found.items()
    }
