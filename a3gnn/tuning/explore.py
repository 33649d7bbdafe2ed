"""The rounds of a tune: references first, then what the search proposes, until the budget or the gain runs out."""

from __future__ import annotations

from a3gnn.config import TrainConfig
from a3gnn.tuning.acquisition import Rows
from a3gnn.tuning.campaign import Campaign
from a3gnn.units import count, format_duration

#: A round that adds less than this share to the measured hypervolume has stalled; two in a row end the tune.
_LEAST_GAIN = 0.01
_STALLS = 2


def warn_of_short_budget(campaign: Campaign) -> None:
    """Says so where the least of a tune, the default's trial and a verification, is expected to pass the budget."""
    least, left = campaign.least_s(), campaign.budget.left_s
    if least > left:
        campaign.notify(
            f"the budget is short: {format_duration(max(left, 0))} of it are left, and "
            f"{'a verification' if campaign.findings.default else 'the trial of the default and a verification'}, "
            f"the least of a tune, are expected to take {format_duration(least)}; they are made all the same"
        )


def measure_references(campaign: Campaign) -> None:
    """Measures the default configuration, and where it does not fit, the one that learns the same from disk."""
    if campaign.findings.default is None:
        campaign.measure(TrainConfig(), "default")
    if campaign.findings.reference_accuracy is None:
        frugal = TrainConfig(feature_tier="disk")
        if all(probe.measurement.config != frugal for probe in campaign.findings.probes):
            campaign.notify("the default configuration does not fit; its twin that reads from disk is measured")
            campaign.measure(frugal, "default")
        if campaign.findings.reference_accuracy is None:
            campaign.notify("that does not fit either: the best measured accuracy stands in for the default's")
    campaign.learn()


def explore(campaign: Campaign) -> None:
    """Searches and measures in rounds; the surrogate learns from each."""
    stalls, volume, ended = 0, campaign.findings.hypervolume(), ""
    while not ended:
        ended = "" if campaign.budget.affords() else campaign.budget.describe_end()
        if not ended:
            ended = _measure_round(campaign, campaign.propose())
        if not ended:
            campaign.learn()
            before, volume = volume, campaign.findings.hypervolume()
            stalls = stalls + 1 if volume > 0 and volume < before * (1 + _LEAST_GAIN) else 0
            ended = "the front has stopped growing" if stalls == _STALLS else ""
    campaign.notify(f"exploring ends after {count(campaign.budget.trials, 'trial')}: {ended}")


def try_smallest(campaign: Campaign) -> None:
    """Where no measured memory fits, measures the configuration with the least predicted one: to know what would.

    Its trial may pass the limit, for it has to show by how much. Where nothing is left to find out, there is none.
    """
    findings = campaign.findings
    if findings.fits_memory() or any(probe.reason == "smallest" for probe in findings.probes):
        return
    smallest = campaign.smallest_memory()
    if smallest is not None:
        campaign.notify("nothing fits: the configuration with the least predicted memory is measured without the limit")
        campaign.measure_unlimited(smallest, "smallest")


def _measure_round(campaign: Campaign, proposals: list[tuple[str, Rows]]) -> str:
    """Measures the proposals that the budget affords, and returns why none was measured, or "" if any was."""
    done, too_long = 0, []
    # Decoded at once: a trial that fails may leave partitions out of the space, and those that follow with them.
    for reason, config in [(reason, campaign.space.decode(row)) for reason, row in proposals]:
        if not campaign.space.can_make(config):
            continue
        predicted_s = campaign.predicted_trial_s(config)
        if not campaign.budget.affords(predicted_s):
            too_long.append(predicted_s)
            continue
        campaign.measure(config, reason)
        done += 1
    if done:
        return ""
    return campaign.budget.describe_end(min(too_long)) if too_long else "nothing of interest is left to measure"
