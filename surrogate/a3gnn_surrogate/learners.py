"""Learners by name."""

from __future__ import annotations

from collections.abc import Callable

from a3gnn.errors import unknown_name
from a3gnn_surrogate.baselines import decision_tree, linear
from a3gnn_surrogate.learner import BoostedTrees, Learner, NoLearner

_LEARNERS: dict[str, Callable[[int], Learner]] = {
    "xgboost": BoostedTrees,
    "linear": lambda seed: linear(),
    "tree": decision_tree,
    "none": lambda seed: NoLearner(),
}


def make_learner(name: str, seed: int) -> Learner:
    """Returns the unfitted learner `name`: xgboost, linear, tree, or none, which leaves the analytic model alone.

    Raises:
        UsageError: The name is another; the message lists these.
    """
    if name not in _LEARNERS:
        raise unknown_name("learner", name, _LEARNERS)
    return _LEARNERS[name](seed)
