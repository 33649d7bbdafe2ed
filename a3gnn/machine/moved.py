"""Which constants of the hardware probe have moved since they were kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from a3gnn.hardware import MachineProfile

#: A constant that differs by this factor from what is kept has moved; repetitions differ by less. Guess.
_FACTOR = 1.5
#: Measured at every start, and so never moved; and the one constant of which less is faster.
_NOT_KEPT = "idle_host_bytes"
_LESS_IS_FASTER = "batch_overhead_s"


def moved(kept: MachineProfile, found: Mapping[str, float], only_faster: bool = False) -> dict[str, str]:
    """Returns the constants in `found` that differ by half from the kept ones.

    Args:
        kept: As they were probed.
        found: As they are now, by name.
        only_faster: Whether to leave out those by which the machine is slower now: other work does that.

    Returns:
        By name, for people: the name and by what factor it differs.
    """
    changes = {}
    for name, now in found.items():
        before = getattr(kept, name)
        if name == _NOT_KEPT or before <= 0 or now <= 0:
            continue
        faster = (now < before) == (name == _LESS_IS_FASTER)
        if max(now / before, before / now) > _FACTOR and (faster or not only_faster):
            changes[name] = f"{name} is {now / before:.2g} times what it was ({before:.3g}, now {now:.3g})"
    return changes


def newer(kept: MachineProfile, again: MachineProfile, changed: Collection[str]) -> MachineProfile:
    """Returns `kept` with the constants that `changed` names as `again` has them: what two probes agree on stays."""
    return dataclasses.replace(kept, **{name: getattr(again, name) for name in changed})
