"""The environment variables that a process is started with: those of `torchrun` (`Launch`), and `A3GNN_QUICK`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from a3gnn.errors import UsageError

#: Variables that every process of `torchrun` has, in the order of `Launch`'s fields.
_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
#: Environment variable that processes inherit; 1 makes trials and verifications measure as little as they can.
QUICK_VARIABLE = "A3GNN_QUICK"
#: Its value when a3gnn is imported. Trials then have one short timed window, never repeated. A verification has no
#: further seed, and needs one pair. A budget in trials trains for seconds. Few shipped measurements are learned from,
#: and knob importance is computed from few configurations. A machine that was probed is not looked at again. Its
#: figures say little of any configuration.
QUICK = os.environ.get(QUICK_VARIABLE) == "1"


@dataclass(frozen=True, slots=True)
class Launch:
    """One of several processes that were started to train together."""

    rank: int  # rank of this process, from 0
    size: int  # number of processes
    local_rank: int  # rank on this machine, from 0
    local_size: int  # number of processes on this machine


def by_torchrun(environment: Mapping[str, str] = os.environ) -> bool:
    """Returns whether `torchrun` started this process; some of its variables are also set by schedulers."""
    return "TORCHELASTIC_RUN_ID" in environment or all(name in environment for name in _VARIABLES)


def launch(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """Returns the `Launch` of this process; None if `torchrun` did not start it, or started only this one.

    Raises:
        UsageError: The variables ask for several processes, but not all of them are integers.
    """
    if environment.get("WORLD_SIZE", "1") == "1":
        return None
    found = [environment.get(name, "") for name in _VARIABLES]
    if not all(value.isdecimal() for value in found):
        told = ", ".join(f"{name}={value!r}" for name, value in zip(_VARIABLES, found, strict=True))
        raise UsageError(f"{', '.join(_VARIABLES)} must be integers, got {told}; start all processes by torchrun")
    return Launch(*map(int, found))
