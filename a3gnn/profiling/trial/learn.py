"""`learn`: a trial's learning curve."""

from __future__ import annotations

import dataclasses
from itertools import count
from pathlib import Path
from typing import Any

from a3gnn.learning_curve import NO_CURVE, CurveEnd, LearningCurve
from a3gnn.profiling.trial.curve_end import CurveRules
from a3gnn.profiling.trial.request import TrialRequest
from a3gnn.training.curve import CurveState, first_point, train_curve
from a3gnn.training.trainer import Trainer


def learn(trainer: Trainer, rules: CurveRules, request: TrialRequest) -> dict[str, Any]:
    """Returns the fields of `Metrics` that tell of the learning curve, as JSON types.

    What is known of it is extended as far as `rules` let it, by a point at least where the plan `trains`. Where nothing
    is trained, one point is made all the same, so that its memory is seen: that of validation, and of the best weights
    beside the model's. A whole curve is trained from its start and keeps no state: the state that is kept may have come
    further.

    Args:
        trainer: Whatever it has trained.
        rules: Where the curve ends.
        request: The trial's.
    """
    whole = rules.plan.whole
    first = first_point(trainer)
    known = NO_CURVE if whole else request.known_curve or NO_CURVE
    reached = rules.cut(known, first)
    if reached is not None and not request.plan.trains:
        CurveState(batches=first).add(trainer.validate(), trainer)
        return {"curve": dataclasses.replace(known, ended=reached.ended).to_dict(), "curve_first": first}
    state = Path(request.curve_state) if request.curve_state and not whole else None
    asked = count()

    def should_end(curve: LearningCurve, due: int) -> CurveEnd | None:
        if request.plan.trains and next(asked) == 0:
            return None
        return rules.end(curve, due) if reached is None else reached.ended

    found = train_curve(trainer, known, first=first, should_end=should_end, state=state, whole=whole)
    if not found.eval_seconds:  # the state had come further than was known
        trainer.validate()
    return {
        "curve": found.curve.to_dict(),
        "curve_train_seconds": found.train_seconds,
        "curve_eval_seconds": found.eval_seconds,
        "curve_first": first,
        "test_accuracy": found.test_accuracy(trainer) if whole else None,
    }
