"""Which of several machines is best by the priority, as far as their tunes can be compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from a3gnn.objectives import Objectives
from a3gnn.option_names import option
from a3gnn.tuning.machines import TunedMachine
from a3gnn.tuning.outcome.told_tune import ToldTune


def ranked(found: Sequence[TunedMachine]) -> list[TunedMachine]:
    """Returns `found` with the machine first whose choice the priority prefers; those without a choice come last.

    All are judged by the highest of their targets. Memory, where some have it of a device and others of the host,
    counts for nothing; so the order says nothing where `why_no_best` has a reason.
    """
    tunes = _chosen(found)
    highest, mixed = _highest_target(tunes), _memory_is_mixed(tunes)
    return sorted(found, key=lambda one: -_score(one.tune, highest, mixed) if one.tune is not None else float("inf"))


def why_no_best(found: Sequence[TunedMachine]) -> str:
    """Returns why none of `found` can be called the best by what was measured, and what to do; "" where one can be."""
    tunes = _chosen(found)
    if not tunes:
        return "nothing was chosen"
    priority, metric = tunes[0].request.priority, tunes[0].front.metric
    if priority.deciding[1] and _memory_is_mixed(tunes):
        return (
            f"memory is the device's on some and the host's on others, and the priority {priority.text} goes by it; "
            f"name machines of one sort by {option('machines')}, or tune by another {option('priority')}"
        )
    highest = _highest_target(tunes)
    first = ranked(found)[0].tune
    # One that takes the fewest seconds to the highest target takes fewer than the others would take to that.
    if not priority.time or highest is None or (first is not None and first.front.target == highest):
        return ""
    return (
        f"the {metric.label} whose seconds are compared is another on each, for it is what the machine's own default "
        f"reached, less what may be lost; tune again with {option('target_accuracy', float(metric.as_option(highest)))}"
    )


def _chosen(found: Sequence[TunedMachine]) -> list[ToldTune]:
    return [one.tune for one in found if one.tune is not None and one.tune.choice is not None]


def _highest_target(tunes: Sequence[ToldTune]) -> float | None:
    return max((tune.front.target for tune in tunes if tune.front.target is not None), default=None)


def _memory_is_mixed(tunes: Sequence[ToldTune]) -> bool:
    return len({tune.front.memory for tune in tunes}) > 1


def _score(tune: ToldTune, target: float | None, without_memory: bool) -> float:
    """Returns the priority's score of the choice; minus infinity where there is none, or its target is missed."""
    figures = tune.choice
    if figures is None:
        return -float("inf")
    if without_memory:
        figures = dataclasses.replace(figures, peak_host_bytes=1, peak_device_bytes=1)
    request, hardware = tune.request, tune.setting.hardware
    limits = request.limits(hardware, target)
    return float(Objectives(limits, request.priority, hardware.has_device).measured_score([figures])[0])
