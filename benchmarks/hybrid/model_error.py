"""By how much the performance model misses what is simulated, with the simulator's own constants and counts."""

from __future__ import annotations

from a3gnn.layer_cost import COUNTED_PASSES, Passes
from a3gnn.training.hybrid.model.initial import initial_assignment
from benchmarks.hybrid.platforms import BATCH, random_training, still
from benchmarks.hybrid.probe import performance_model


def model_error(seed: int, passes: Passes = COUNTED_PASSES, *, shares_memory: bool = True) -> float:
    """Returns predicted over simulated seconds of an iteration, less 1, of the model's division on a random platform.

    Args:
        seed: Of the platform.
        passes: How often a step runs each layer.
        shares_memory: Whether the model knows that the host's memory is shared; the paper's does not.
    """
    training = random_training(seed)
    model = performance_model(training, passes, shares_memory=shares_memory)
    assignment = initial_assignment(model, BATCH)
    predicted = model.predict(assignment).iteration
    assert predicted is not None
    return predicted / still(training).seconds_per_batch(assignment) - 1
