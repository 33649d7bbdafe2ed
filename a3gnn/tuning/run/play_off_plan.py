"""`PlayOffCost`: the expected cost of the play-off, and the seconds reserved for it."""

from __future__ import annotations

from typing import NamedTuple, Self

from a3gnn.quick import QUICK
from a3gnn.tuning.beliefs.expectations import TrialCost
from a3gnn.tuning.run.trial_plan import timing_plan
from a3gnn.tuning.study.comparison import ALTERNATIONS
from a3gnn.tuning.study.history import History

#: Finalists beside the default, rounds that compare them, and seeds beside the task's own that the choice and the
#: default train with.
FINALISTS, ROUNDS, SEEDS = (3, 1, 0) if QUICK else (3, 2, 2)
#: Most alternations and further seeds that the remaining seconds of a budget are used for. Guesses: twice as many would
#: narrow a wide range by a third at best.
MOST_ALTERNATIONS, MOST_SEEDS = (1, 0) if QUICK else (15, 5)
#: Most additional alternations if other work disturbed so many that too few would count. Guess: on a machine that is
#: never quiet, more of them would only take seconds from further seeds.
MOST_REPEATED = MOST_ALTERNATIONS
#: A tune with fewer trials than this needs another trial more than a whole play-off. Guess.
_FEW_TRIALS = 4
#: Factor on the expected seconds of a play-off, and of a training to the target. Guess.
MARGIN = 1.2
#: The indispensable part of a play-off may take so many times the play-off's share of the budget. Guess: a promise from
#: one seed may be luck, but so may the best of a few trials.
_MOST_SHARES = 1.35


class PlayOffCost(NamedTuple):
    """The expected cost of the trials of a play-off.

    Attributes:
        timing_s: Seconds of a timed trial.
        whole_s: Seconds of a whole training.
        seed_s: Seconds to train a finalist and the default with a further seed, together.
        default_whole: Whether the default trains its whole curve again. If only the seconds to the target count, its
            first trial is enough.
    """

    timing_s: float
    whole_s: float
    seed_s: float
    default_whole: bool = True

    @classmethod
    def expected(cls, history: History, drift: float = 1.0) -> Self:
        """Returns the cost expected from the trials of `history`, on a machine at `drift` of the reference's speed."""
        cost, reference = TrialCost.of(history), history.reference
        timing = max(cost.around_s - history.study.plan.timed_seconds + timing_plan(history).timed_seconds, 0.0)
        budget_s = history.study.reference_curve.most_seconds if reference is None else reference.budget_s
        second_s = (1 + cost.eval_share) / drift
        whole_s = timing + budget_s * second_s
        if not history.study.request.priority.to_target:
            return cls(timing, whole_s, 2 * whole_s)
        best, default = history.best(), history.reference_figures
        figures = (default, default if best is None else best.figures)
        needed_s = sum(budget_s if one is None else one.seconds_to_accuracy or budget_s for one in figures)
        seed_s = 2 * timing + needed_s * second_s  # other seeds may take longer
        return cls(timing, whole_s, MARGIN * seed_s, default_whole=False)

    @property
    def alternating_s(self) -> float:
        """Seconds of the alternations."""
        return 2 * ALTERNATIONS * self.timing_s

    @property
    def least_s(self) -> float:
        """Seconds of the indispensable part.

        It is the choice's whole training, the alternations, and a further seed if that ends at the target.
        """
        return self.whole_s + self.alternating_s + (0.0 if self.default_whole else self.seed_s)

    @property
    def full_s(self) -> float:
        """Seconds of a complete play-off."""
        rounds = ROUNDS * (FINALISTS + 1) * self.timing_s
        wholes = 2 if self.default_whole else 1
        return rounds + wholes * self.whole_s + SEEDS * self.seed_s + self.alternating_s


def reserve_s(history: History, share_s: float) -> float:
    """Returns the seconds reserved for the play-off of `history`, with a margin.

    They are the cost of a complete play-off, or after few trials of its indispensable part, but at most `share_s`. If
    the indispensable part contains a further seed and exceeds the share, up to `_MOST_SHARES` shares are reserved.
    """
    cost = PlayOffCost.expected(history)
    tried = sum(trial.counts for trial in history.trials)
    if not cost.default_whole:
        share_s = max(share_s, min(MARGIN * cost.least_s, _MOST_SHARES * share_s))
    return min(share_s, MARGIN * (cost.least_s if tried < _FEW_TRIALS else cost.full_s))
