"""What to say where nothing is predicted to keep the limits: what comes closest, and which limit it would keep."""

from __future__ import annotations

import math

import numpy as np

from a3gnn.breach import MEMORY_NAMES
from a3gnn.errors import InfeasibleError
from a3gnn.limits import FEASIBLE
from a3gnn.option_names import option
from a3gnn.prediction import Prediction
from a3gnn.report.text import describe_config
from a3gnn.search.evaluation_cache import EvaluationCache
from a3gnn.tuning.acquisition import Rows
from a3gnn.tuning.expectations import smallest_memory
from a3gnn.tuning.outlook import Outlook
from a3gnn.units import format_size


def nothing_predicted(outlook: Outlook, cache: EvaluationCache) -> InfeasibleError:
    """Returns the error that says which limit is out of reach, by how much, and which one would not be.

    Args:
        outlook: The predictions.
        cache: Everything that was looked at; nothing of it is probable enough.
    """
    kept = outlook.keeping(cache.prediction)
    accuracy = kept.pop("least_accuracy")
    fits = np.all([np.ones(len(cache), np.bool_), *(own >= FEASIBLE for own in kept.values())], axis=0)
    if not fits.any():
        return _too_large(outlook)
    closest = int(np.where(fits, accuracy, -1.0).argmax())
    found = cache.prediction.take(np.array([closest]))
    return _too_inaccurate(outlook, cache.rows[closest], found, float(accuracy[closest]))


def _too_large(outlook: Outlook) -> InfeasibleError:
    """Returns the error of the limits on memory, about the configuration of which the least memory is predicted."""
    smallest = smallest_memory(outlook.fitted, outlook.history)
    assert smallest is not None, "nothing is measured, so every configuration is left"
    prediction, limits, memory = outlook.predict([smallest]), outlook.objectives.limits, outlook.objectives.memory
    kept = {name: own for name, own in outlook.keeping(prediction).items() if name != "least_accuracy"}
    parts, remedies = [], []
    for name, probability in kept.items():
        metric = f"peak_{name}"
        mean, low, high = (float(prediction.column(metric, bound)[0]) for bound in ("mean", "low", "high"))
        parts.append(
            f"{format_size(mean)} of {MEMORY_NAMES[name]} ({format_size(low)} to {format_size(high)}), within the "
            f"limit of {format_size(getattr(limits, name))} with a probability of {probability[0]:.2f}"
        )
        needed = prediction.with_probability(metric, FEASIBLE)[0]
        argument = "memory_limit" if metric == memory else "host_memory_limit"
        remedies.append(option(argument, f"{math.ceil(needed / 2**20)}MiB"))
    return InfeasibleError(
        f"nothing is predicted to keep the memory limit with a probability of {FEASIBLE} or more. The least "
        f"memory is predicted for {describe_config(smallest)}: {', '.join(parts)}. It would do with "
        f"{' '.join(remedies)}; a3gnn tune finds by measuring what predictions can't tell"
    )


def _too_inaccurate(outlook: Outlook, row: Rows, prediction: Prediction, accurate: float) -> InfeasibleError:
    """Returns the error of the least accuracy, about the configuration that most probably keeps it.

    Args:
        outlook: The predictions.
        row: The configuration, int64, shape (n_knobs,).
        prediction: Of it alone.
        accurate: The probability that it keeps the least accuracy.
    """
    allowed = outlook.history.study.request.max_accuracy_drop
    lost = 100 * (outlook.default_accuracy - float(prediction.column("val_accuracy")[0]))
    label = outlook.setting.metric.label
    others = " that keeps the memory limit" if len(outlook.keeping(prediction)) > 1 else ""
    enough = outlook.default_accuracy - float(prediction.with_probability("val_accuracy", FEASIBLE)[0])
    needed = math.ceil(1000 * enough) / 10
    remedy = (
        f"{option('max_accuracy_drop', needed)} would allow it" if needed > allowed else "a larger drop may allow it"
    )
    return InfeasibleError(
        f"nothing{others} is predicted to lose at most {allowed:g} points of validation {label} against the default "
        f"with a probability of {FEASIBLE} or more. The closest, {describe_config(outlook.space.decode(row))}, is "
        f"predicted to lose {lost:.2g} points, and at most {allowed:g} with a probability of {accurate:.2f}; {remedy}, "
        "and a3gnn tune finds by measuring what predictions can't tell"
    )
