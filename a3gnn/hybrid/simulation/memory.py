"""How many seeds fit into a simulated accelerator."""

from __future__ import annotations

from a3gnn.errors import MemoryLimitError
from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.schedule import Schedule
from a3gnn.hybrid.simulation.operations import SimulatedModel
from a3gnn.hybrid.simulation.platform import SimulatedAccelerator, SimulatedPlatform
from a3gnn.sampling.counts import CountCurve
from a3gnn.units import format_size


def needed_bytes(model: SimulatedModel, counts: CountCurve, schedule: Schedule, seeds: int) -> float:
    """Returns the bytes of an accelerator that trains `seeds` seeds, and holds those which wait for it."""
    found = counts.at(seeds)
    return model.kept_bytes(found) + schedule.transferred * model.sent_bytes(found)


def most_seeds(device: SimulatedAccelerator, model: SimulatedModel, counts: CountCurve, schedule: Schedule) -> int:
    """Returns the largest share that fits into `device`, of what was counted."""
    low, high = 0, counts.seeds[-1]
    while low < high:
        middle = (low + high + 1) // 2
        fits = needed_bytes(model, counts, schedule, middle) <= device.memory_bytes
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def check_memory(
    platform: SimulatedPlatform, model: SimulatedModel, counts: CountCurve, schedule: Schedule, assignment: Assignment
) -> None:
    """Checks that every accelerator holds its share.

    Raises:
        MemoryLimitError: One does not.
    """
    for place, (device, seeds) in enumerate(zip(platform.accelerators, assignment.shares[1:], strict=True)):
        needed = needed_bytes(model, counts, schedule, seeds) if seeds else 0.0
        if needed > device.memory_bytes:
            fit = most_seeds(device, model, counts, schedule)
            raise MemoryLimitError(
                f"accelerator {place} has {format_size(device.memory_bytes)} memory, and {seeds} seeds need "
                f"{format_size(needed)}; {fit} seeds fit"
            )
