"""`proposed`: the proposals of the shipped policy for a tune or a recommendation."""

from __future__ import annotations

from a3gnn.objectives import Objectives
from a3gnn.prediction import Prediction
from a3gnn.setting import setting_key
from a3gnn.space import Rows
from a3gnn.tuning.study.history import History
from a3gnn_surrogate.surrogate import Surrogate

#: Proposals per search. The best predicted one of so many was .01 to .13 doublings behind 3,000 predictions of a local
#: search, on ten graphs outside the policy's training (docs/design/trials.md).
PROPOSALS = 256


def proposed(history: History, objectives: Objectives, surrogate: Surrogate, baseline: Prediction, seed: int) -> Rows:
    """Returns the rows that the shipped policy proposes, int64, shape (n, n_knobs), n up to `PROPOSALS`.

    The policy was trained by PPO in the environment `a3gnn/Configure-v0`. It observes the graph, the machine, the
    limits, the priority, and how the setting's measurements differ from the general model.

    Args:
        history: Its space and setting.
        objectives: The limits and the priority.
        surrogate: Provides the setting's corrections.
        baseline: Prediction of the default configuration, of length 1.
        seed: Decides the draws.
    """
    from a3gnn_envs.observation import Levels  # imports gymnasium
    from a3gnn_envs.policy import Policy

    setting = history.study.setting
    correction = surrogate.setting_corrections_.corrections.get(setting_key(setting))
    levels = Levels(baseline) if correction is None else Levels(baseline, correction.constant)
    return Policy.load().propose(setting, history.space, objectives, levels, PROPOSALS, seed)
