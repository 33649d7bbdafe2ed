"""The rounds of a tune: references first, then what the search proposes, until the budget or the gain runs out."""

from __future__ import annotations

from a3gnn.config import TrainConfig
from a3gnn.tuning.acquisition import Rows
from a3gnn.tuning.campaign import Campaign
from a3gnn.units import count

#: A round that adds less than this share to the measured hypervolume has stalled; two in a row end the tune.
_LEAST_GAIN = 0.01
_STALLS = 2


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
    stalls, volume = 0, campaign.findings.hypervolume()
    while stalls < _STALLS and campaign.budget.affords():
        if not _measure_round(campaign, campaign.propose()):
            campaign.notify("nothing of interest is left that fits the budget")
            break
        campaign.learn()
        before, volume = volume, campaign.findings.hypervolume()
        stalls = stalls + 1 if volume > 0 and volume < before * (1 + _LEAST_GAIN) else 0
    else:
        ended = "the front has stopped growing" if stalls == _STALLS else "the budget is spent"
        campaign.notify(f"{ended} after {count(campaign.budget.probes, 'probe')}")


def try_smallest(campaign: Campaign) -> None:
    """Where nothing fits, measures the configuration with the least predicted memory: it fits, or says what would.

    Its trial may pass the limit, for it has to show by how much.
    """
    if not campaign.findings.eligible():
        campaign.measure_unlimited(campaign.smallest_memory(), "smallest")


def _measure_round(campaign: Campaign, proposals: list[tuple[str, Rows]]) -> int:
    """Measures the proposals that the budget affords, and returns their number."""
    done = 0
    # Decoded at once: a probe that fails may leave values out of the space, and those that follow with them.
    for reason, config in [(reason, campaign.space.decode(row)) for reason, row in proposals]:
        if campaign.findings.row(config) is None or not campaign.budget.affords(campaign.predicted_trial_s(config)):
            continue
        campaign.measure(config, reason)
        done += 1
    return done
