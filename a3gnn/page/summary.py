"""How a study stands: what was asked for, the time that it took, and what its best configuration gains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from a3gnn.page.stored_study import Measured, StoredStudy
from a3gnn.report.text import describe_figures
from a3gnn.tuning.budget import Budget
from a3gnn.tuning.choice_lines import choice_lines
from a3gnn.tuning.comparison import Comparison
from a3gnn.tuning.request import TuneRequest
from a3gnn.units import count, format_duration, format_size


def asked(request: TuneRequest) -> Iterator[tuple[str, str]]:
    """Yields what was asked for, a name and a text each."""
    weights = zip(("speed", "memory", "accuracy"), request.priority.weights, strict=True)
    speed = "seconds to the target" if request.priority.time else "throughput"
    yield "priority", f"{', '.join(f'{name} {weight:.0%}' for name, weight in weights)}; speed means {speed}"
    limit = request.memory_limit
    yield "memory limit", format_size(limit) if isinstance(limit, int) else "the default's" if limit else "none"
    if request.host_memory_limit is not None:
        yield "host memory limit", format_size(request.host_memory_limit)
    if request.target_accuracy is None:
        yield "accuracy that may be lost", f"{request.max_accuracy_drop:g} points"
    else:
        yield "target", f"{request.target_accuracy:g}"
    budget = request.budget
    yield "budget", count(budget, "trial") if isinstance(budget, int) else format_duration(budget)
    yield "engine", request.engine
    yield from ((f"{name} fixed at", str(value)) for name, value in request.fixed)
    yield from ((f"{name} between", f"{low} and {high}") for name, low, high in request.ranges)
    yield "seed", str(request.seed)


def time_view(study: StoredStudy) -> dict[str, Any]:
    """Returns how long the study took, what is left of its budget, and how many trials it has made."""
    trials = () if study.measured is None else study.measured.trials
    budget = Budget(study.request.budget, spent_s=study.state.elapsed_s)
    for trial in trials:
        if trial.counts:
            budget.record()
    return {
        "elapsed_s": study.state.elapsed_s,
        "elapsed": format_duration(study.state.elapsed_s),
        "left": budget.describe(),
        "left_s": None if budget.in_trials else max(budget.left_s, 0.0),
        "trials": budget.trials,
        "failures": sum(trial.measurement.metrics is None for trial in trials),
    }


def summary_view(measured: Measured | None) -> dict[str, Any]:
    """Returns default, best measured so far and the lines that a tune ends with in words, and what the best gains."""
    if measured is None:
        return {"default": None, "best": None, "gain": None, "lines": []}
    tuned, front = measured.tune.tuned, measured.front
    lines = [] if tuned is None else [line.strip() for line in choice_lines(tuned, front)]
    described = {
        name: None
        if index is None
        else describe_figures(measured.rows[index].measured, front.memory, front.speed, front.metric, front.target)
        for name, index in (("default", measured.default), ("best", measured.best))
    }
    return described | {"gain": _gain(measured), "lines": lines}


def _gain(measured: Measured) -> dict[str, Any] | None:
    """Returns the best over the default: ratios of speeds with their ranges, of memory, and points of accuracy.

    Those of the play-off where both were timed in turns; before that of their trials, each range as wide as theirs.
    """
    tuned, memory = measured.tune.tuned, measured.front.memory
    if tuned is not None and tuned.against_default is not None:
        return Comparison.from_dict(tuned.against_default).to_dict() | {"in_turns": True}
    if measured.default is None or measured.best is None:
        return None
    if measured.rows[measured.best].config == measured.rows[measured.default].config:
        return None
    default, best = (measured.rows[index].measured for index in (measured.default, measured.best))
    seconds = default.seconds_to_accuracy, best.seconds_to_accuracy
    return {
        "throughput": {
            "median": best.throughput_epochs_per_s / default.throughput_epochs_per_s,
            "low": best.throughput_low / default.throughput_high,
            "high": best.throughput_high / default.throughput_low,
        },
        "time": None if seconds[0] is None or seconds[1] is None else {"median": seconds[0] / seconds[1]},
        "memory": getattr(best, memory) / getattr(default, memory),
        "accuracy": None,
        "in_turns": False,
    }
