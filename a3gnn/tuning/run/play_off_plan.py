"""`TrialCost`: what a trial is expected to take, by those so far."""

from __future__ import annotations

from typing import NamedTuple, Self

from a3gnn.quick import QUICK
from a3gnn.tuning.beliefs.expectations import TrialCost
from a3gnn.tuning.run.trial_plan import timing_plan
from a3gnn.tuning.study.comparison import ALTERNATIONS
from a3gnn.tuning.study.history import History

#: Finalists beside the default, rounds in which they are compared, and seeds beside the task's that the choice and the
#: default train with.
FINALISTS, ROUNDS, SEEDS = (3, 1, 0) if QUICK else (3, 2, 2)
#: Alternations and further seeds for which a budget in seconds that is left over is used, at most. Guesses: twice as
#: many would narrow a range that is wide by a third at best.
MOST_ALTERNATIONS, MOST_SEEDS = (1, 0) if QUICK else (15, 5)
#: Alternations beyond those, at most, where other work disturbed so many that too few would count. Guess: on a machine
#: that is never quiet, more of them would take the seconds from further seeds for nothing.
MOST_REPEATED = MOST_ALTERNATIONS
#: A tune that has tried fewer than so many configurations needs another trial more than it needs a whole play-off.
#: Guess.
_FEW_TRIALS = 4
#: What is kept for a play-off, and for a training to the target, over what it is expected to take. Guess.
MARGIN = 1.2
#: How many times the tune's share a play-off's indispensable part may take. Guess: a promise of one seed may be luck,
#: but so may be the best of a few trials.
_MOST_SHARES = 1.35


class PlayOffCost(NamedTuple):
    """What the trials of a play-off are expected to take.

    Attributes:
        timing_s: Seconds of a timed trial.
        whole_s: Seconds of a whole training.
        seed_s: Seconds of a finalist's and the default's training with a further seed.
        default_whole: Whether the default trains its whole curve as well: where the target is all that counts, what its
            own trial trained does.
    """

    timing_s: float
    whole_s: float
    seed_s: float
    default_whole: bool = True

    @classmethod
    def expected(cls, history: History, drift: float = 1.0) -> Self:
        """Returns what the trials of `history` let expect, on a machine at `drift` of the reference's speed."""
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
        """Seconds of the choice's whole training, the alternations, and a seed where that ends at the target."""
        return self.whole_s + self.alternating_s + (0.0 if self.default_whole else self.seed_s)

    @property
    def full_s(self) -> float:
        """Seconds of a play-off that leaves nothing out."""
        rounds = ROUNDS * (FINALISTS + 1) * self.timing_s
        wholes = 2 if self.default_whole else 1
        return rounds + wholes * self.whole_s + SEEDS * self.seed_s + self.alternating_s


def reserve_s(history: History, share_s: float) -> float:
    """Returns the seconds that are kept for the play-off of `history`, with a margin.

    That is the tune's `share_s`, or what a whole play-off takes if that is less; while few configurations are tried,
    what its indispensable part takes. Where that has a further seed and takes more than the share, up to `_MOST_SHARES`
    of it are kept for it.
    """
    cost = PlayOffCost.expected(history)
    tried = sum(trial.counts for trial in history.trials)
    if not cost.default_whole:
        share_s = max(share_s, min(MARGIN * cost.least_s, _MOST_SHARES * share_s))
    return min(share_s, MARGIN * (cost.least_s if tried < _FEW_TRIALS else cost.full_s))
