"""The blocks of a verification: how many there are, what they cost, and the seconds that a tune reserves for them."""

from __future__ import annotations

import math

from a3gnn.figures import LEAST_PAIRS, Figures
from a3gnn.launch import QUICK
from a3gnn.learning_curve import CONFIRMED
from a3gnn.objectives import Priority
from a3gnn.tuning.beliefs.expectations import TrialCost
from a3gnn.tuning.run.plans import stopped_s, timing_plan
from a3gnn.tuning.study.history import History

#: Configurations that are verified beside the baseline: two halvings leave one.
CONTENDERS = 3
#: Seeds that the choice and the baseline train with, the task's own among them: the least number whose median ignores
#: one outlier.
SEEDS = 1 if QUICK else 3
#: Most blocks that the remaining seconds of a budget are used for. The range of 15 ratios leaves out three at each end;
#: twice as many blocks would narrow it by a third.
MOST_BLOCKS = 1 if QUICK else 15


class BlockCost:
    """The expected seconds of a verification's runs.

    Args:
        history: Its trials provide the cost so far.
        drift: The machine's speed over its speed when the reference was measured.
    """

    def __init__(self, history: History, drift: float = 1.0) -> None:
        cost, reference = TrialCost.of(history), history.reference
        self._evaluated = 1 + cost.eval_share
        self._around_s, self._second_s = cost.around_s, self._evaluated / drift
        self._budget_s = history.study.reference_curve.most_seconds if reference is None else reference.budget_s
        self._to_target = history.study.request.priority.to_target
        less_s = history.study.plan.timed_seconds - timing_plan(history).timed_seconds
        self._timing_s = max(cost.around_s - less_s, cost.around_s / 2)

    def run_s(self, seed: int | None, figures: Figures | None, most_s: float = math.inf) -> float:
        """Returns the expected seconds of a run of a configuration with `figures`, as known so far.

        Args:
            seed: Seed that it trains with, after the task's own, 0; None only times mini-batches.
            figures: The figures; None if not known.
            most_s: Most seconds of training (`stopped_s`).
        """
        if seed is None:
            return self._timing_s
        reached = None if figures is None or not (self._to_target and seed) else figures.seconds_to_accuracy
        trained_s = min(most_s, self._budget_s) if reached is None else min(reached * CONFIRMED, self._budget_s)
        return self._around_s + trained_s * self._second_s

    def training_within(self, seconds: float) -> float:
        """Returns the seconds that a run of `seconds` trains, at the machine's present speed."""
        return max(seconds - self._around_s, 0.0) / self._evaluated


def learning_decides(priority: Priority) -> bool:
    """Whether contenders have to train to be told apart: accuracy, or the seconds to it, count."""
    return priority.time or priority.accuracy_counts


def reserve_s(history: History, share_s: float) -> float:
    """Returns the seconds to reserve for the verification: its first `LEAST_PAIRS` blocks, but at most `share_s`.

    Fewer pairs show only a large gain. If the final quality counts, the reserve is at least for one contender and one
    further seed, without which no gain can be told from the spread of seeds.
    """
    cost, best, priority = BlockCost(history, history.drift), history.best(), history.study.request.priority
    own, baseline = None if best is None else best.figures, history.reference_figures
    trials = None if best is None else best.trial, history.reference_trial
    own_s, baseline_s = (math.inf if one is None else stopped_s(history, one.measurement.config) for one in trials)

    def blocks_s(contenders: int, seeds: int) -> float:
        sizes = [contenders, (contenders + 1) // 2, *[1] * LEAST_PAIRS][:LEAST_PAIRS]
        trained = sum(sizes[:seeds]) if learning_decides(priority) else seeds
        timed = sum(sizes) + LEAST_PAIRS - trained - (seeds - 1)
        trainings_s = cost.run_s(0, own, own_s) + (trained - 1) * cost.run_s(1, own, own_s)
        trainings_s += (seeds - 1) * cost.run_s(1, baseline, baseline_s)
        return trainings_s + timed * cost.run_s(None, None)

    whole_s = min(share_s, blocks_s(min(CONTENDERS, max(history.rivals, 1)), SEEDS))
    return max(whole_s, blocks_s(1, min(SEEDS, 2))) if priority.final else whole_s


def least_reserve_s(history: History, share_s: float) -> float:
    """Returns the seconds to reserve while nothing rivals the baseline: `LEAST_PAIRS` runs, one of them whole.

    They time the baseline. A rival that the last trials find is trained whole beside it, in fewer pairs than
    `reserve_s` allows; these show only a large gain. No gain of final quality shows without a second seed.
    """
    if history.study.request.priority.final:
        return reserve_s(history, share_s)
    cost = BlockCost(history, history.drift)
    return min(share_s, cost.run_s(0, None) + (LEAST_PAIRS - 1) * cost.run_s(None, None))
