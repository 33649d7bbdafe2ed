"""`Study`: the fixed settings of a tune."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Self

from a3gnn.measurement import Measurement
from a3gnn.objectives import Objectives
from a3gnn.option_names import option
from a3gnn.profiling.trial.request import CurvePlan, TrialPlan
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.tuning.study.request import TuneRequest

#: A trial's timeout: this share of a budget in seconds, within these bounds; the last value, in seconds, for a budget
#: in trials. Guesses.
_TRIAL_SHARE, _MIN_TIMEOUT_S, _MAX_TIMEOUT_S, _COUNTED_TIMEOUT_S = 1 / 3, 60.0, 1800.0, 600.0

#: The default's training may take this share of a budget in seconds, and at least so many seconds; the last value for a
#: budget in trials. Guesses.
_CURVE_SHARE, _MIN_CURVE_S, _CURVE_S = 1 / 8, 2.0, 60.0


@dataclass(frozen=True, slots=True)
class Study:
    """The fixed settings of a tune; its measurements are in its `History`.

    Attributes:
        request: The options of the tune.
        setting: The task, the graph and the machine.
        space: The configurations to choose from.
        plan: How trials are timed, and the limits that are known from the start. `a3gnn.tuning.run.trial_plan` adds
            how far they train.
        corpus: Measurements that the surrogate starts from, of this and other graphs and machines.
        unlearnt: The validation quality of a model that predicts the same for every node.
    """

    request: TuneRequest
    setting: Setting
    space: SearchSpace
    plan: TrialPlan
    corpus: tuple[Measurement, ...] = ()
    unlearnt: float = 0.0

    @classmethod
    def of(cls, request: TuneRequest, setting: Setting) -> Self:
        """Returns the study of `request` in `setting`, without a corpus.

        Raises:
            UsageError: Nothing in the requested space can run there, or it is too large for the engine.
        """
        limits = request.limits(setting.hardware, None)
        plan = TrialPlan(
            timeout_s=_timeout_s(request.budget),
            host_limit_bytes=limits.host_bytes,
            device_limit_bytes=limits.device_bytes,
            evaluation_bytes=request.evaluation_bytes if setting.task.is_own else None,
        )
        return cls(request, setting, request.space(setting), plan)

    @property
    def target(self) -> float | None:
        """The requested validation quality in [0, 1], or None."""
        asked = self.request.target_accuracy
        return None if asked is None else self.setting.metric.quality_of(option("target_accuracy"), asked)

    @property
    def reference_curve(self) -> CurvePlan:
        """The plan of the default's learning curve.

        It trains for the requested epochs, or until accuracy stops rising, but not beyond its share of the budget.
        """
        request = self.request
        budget = request.budget
        return CurvePlan(
            most_seconds=_CURVE_S if isinstance(budget, int) else max(budget * _CURVE_SHARE, _MIN_CURVE_S),
            until_plateau=request.default_epochs is None,
            target=None if request.default_epochs is not None else self.target,
            most_epochs=request.default_epochs,
        )

    def objectives(self, least_accuracy: float | None, default_bytes: int | None) -> Objectives:
        """Returns the objectives of the tune; arguments as in `TuneRequest.limits`."""
        request, hardware = self.request, self.setting.hardware
        limits = request.limits(hardware, least_accuracy, default_bytes)
        judged = dataclasses.replace(limits, metric=self.setting.metric)
        return Objectives(judged, request.priority, hardware.has_device)


def _timeout_s(budget: float | int) -> float:
    if isinstance(budget, int):
        return _COUNTED_TIMEOUT_S
    return min(max(budget * _TRIAL_SHARE, _MIN_TIMEOUT_S), _MAX_TIMEOUT_S)
