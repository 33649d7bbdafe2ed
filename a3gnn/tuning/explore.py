"""The rounds of a tune: references first, then what the search proposes, until the budget or the gain runs out."""

from __future__ import annotations

from a3gnn.config import TrainConfig
from a3gnn.tuning.acquisition import Rows
from a3gnn.tuning.study import Study
from a3gnn.units import count, format_duration

#: A round that adds less than this share to the measured hypervolume has stalled; two in a row end the tune.
_LEAST_GAIN = 0.01
_STALLS = 2


def warn_of_short_budget(study: Study) -> None:
    """Says so where the least of a tune, the default's trial and a verification, is expected to pass the budget."""
    least, left = study.least_s(), study.budget.left_s
    if least > left:
        study.notify(
            f"the budget is short: {format_duration(max(left, 0))} of it are left, and "
            f"{'a verification' if study.history.default else 'the trial of the default and a verification'}, "
            f"the least of a tune, are expected to take {format_duration(least)}; they are made all the same"
        )


def measure_references(study: Study) -> None:
    """Measures the default configuration, and where it does not fit, the one that learns the same from disk."""
    if study.history.default is None:
        study.measure(TrainConfig(), "default")
    if study.history.reference_accuracy is None:
        frugal = TrainConfig(feature_tier="disk")
        if all(probe.measurement.config != frugal for probe in study.history.probes):
            study.notify("the default configuration does not fit; its twin that reads from disk is measured")
            study.measure(frugal, "default")
        if study.history.reference_accuracy is None:
            study.notify("that does not fit either: the best measured accuracy stands in for the default's")
    study.learn()


def explore(study: Study) -> None:
    """Searches and measures in rounds; the surrogate learns from each."""
    stalls, volume, ended = 0, study.history.hypervolume(), ""
    while not ended:
        ended = "" if study.budget.affords() else study.budget.describe_end()
        if not ended:
            ended = _measure_round(study, study.propose())
        if not ended:
            study.learn()
            before, volume = volume, study.history.hypervolume()
            stalls = stalls + 1 if volume > 0 and volume < before * (1 + _LEAST_GAIN) else 0
            ended = "the front has stopped growing" if stalls == _STALLS else ""
    study.notify(f"exploring ends after {count(study.budget.trials, 'trial')}: {ended}")


def try_smallest(study: Study) -> None:
    """Where no measured memory fits, measures the configuration with the least predicted one: to know what would.

    Its trial may pass the limit, for it has to show by how much. Where nothing is left to find out, there is none.
    """
    history = study.history
    if history.fits_memory() or any(probe.reason == "smallest" for probe in history.probes):
        return
    smallest = study.smallest_memory()
    if smallest is not None:
        study.notify("nothing fits: the configuration with the least predicted memory is measured without the limit")
        study.measure_unlimited(smallest, "smallest")


def _measure_round(study: Study, proposals: list[tuple[str, Rows]]) -> str:
    """Measures the proposals that the budget affords, and returns why none was measured, or "" if any was."""
    done, too_long = 0, []
    # Decoded at once: a trial that fails may leave partitions out of the space, and those that follow with them.
    for reason, config in [(reason, study.space.decode(row)) for reason, row in proposals]:
        if not study.space.can_make(config):
            continue
        predicted_s = study.predicted_trial_s(config)
        if not study.budget.affords(predicted_s):
            too_long.append(predicted_s)
            continue
        study.measure(config, reason)
        done += 1
    if done:
        return ""
    return study.budget.describe_end(min(too_long)) if too_long else "nothing of interest is left to measure"
