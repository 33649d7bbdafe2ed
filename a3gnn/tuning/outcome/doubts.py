"""What is uncertain about a pick, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from a3gnn.limits import Limits
from a3gnn.measurement import FailureKind
from a3gnn.option_names import option
from a3gnn.tuning.drift import differs
from a3gnn.tuning.history import History
from a3gnn.tuning.outcome.candidates import limits_of, trained_keys_of
from a3gnn.tuning.outcome.kept_tune import KeptTune
from a3gnn.tuning.trial import JudgedTrial
from a3gnn.units import count


def doubts(
    tune: KeptTune,
    asked: History,
    found: Sequence[JudgedTrial],
    best: JudgedTrial | None = None,
    is_choice: bool = False,
) -> Iterator[str]:
    """Yields what the measurements of `tune` leave open of what is asked now.

    Args:
        tune: The tune.
        asked: Its trials, judged by what is asked.
        found: What they come to.
        best: What was picked of them; None where nothing keeps the limits.
        is_choice: Whether that is the tune's own choice, which answers what is asked too.
    """
    if tune.tuned is None:
        yield "The tune has not finished: nothing was measured again in a play-off yet."
    elif best is not None and best.trial.measurement.config.key() not in tune.played_off:
        yield from _single_trial(tune)
        if best.trial.measurement.config.key() not in trained_keys_of(tune):
            yield "Its trial only timed mini-batches, for its learning curve was known: a training takes more memory."
    if is_choice:
        return
    if out_of_memory := _untold_by_memory(tune, asked):
        yield (
            f"{count(out_of_memory, 'trial')} ran out of memory under the tune's own limits, which were smaller: what "
            "they would reach is not known."
        )
    bounds = [one for one in found if not one.figures.complete]
    unknown = sum(_breaks_accuracy_alone(limits_of(asked, one), one) for one in bounds)
    if unknown:
        yield (
            f"{unknown:,} of {count(len(found), 'measured configuration')} may or may not reach the least "
            f"{asked.objectives.metric.label}: the tune ended their training before, where more could not change its "
            "own choice."
        )
    elif asked.study.request.priority.accuracy_counts and bounds:
        yield (
            f"Of {len(bounds):,} of {count(len(found), 'measured configuration')} the validation "
            f"{asked.objectives.metric.label} is a bound: the tune ended their training where more could not change "
            "its own choice. One of them may be better."
        )
    left_out = sum(
        one.trial.measurement.config.key() in tune.rejected and not limits_of(asked, one).broken_by(one.figures)
        for one in found
    )
    if left_out:
        yield f"Left out: {count(left_out, 'configuration')} that the play-off rejected; a3gnn front says why."


def _single_trial(tune: KeptTune) -> Iterator[str]:
    store = tune.folder / "profiles.sqlite"
    taking_over = f" with {option('store', store)} takes over what was measured, and" if store.is_file() else ""
    yield (
        "The picked one was measured by a single trial, not in the play-off: its figures are less certain, and the "
        f"best of many single trials is often a lucky one. A tune for this{taking_over} measures the best again."
    )
    if differs(tune.play_off_drift):
        yield (
            f"In the play-off the machine ran at {tune.play_off_drift:.2g} of the speed at which the trials were "
            "judged: the speed of the picked one is put at that of the play-off, as the default's is."
        )


def _untold_by_memory(tune: KeptTune, asked: History) -> int:
    """Returns how many trials ran out of memory under a limit that is larger now."""
    before, now = tune.history.objectives.limits, asked.objectives.limits
    pairs = ((before.host_bytes, now.host_bytes), (before.device_bytes, now.device_bytes))
    if not any((was or math.inf) < (limit or math.inf) for was, limit in pairs):
        return 0
    return sum(failure.kind is FailureKind.OUT_OF_MEMORY for failure in asked.failures())


def _breaks_accuracy_alone(limits: Limits, one: JudgedTrial) -> bool:
    return [breach.limit for breach in limits.broken_by(one.figures)] == ["least_accuracy"]
