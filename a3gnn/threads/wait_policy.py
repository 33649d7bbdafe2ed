"""How OpenMP's threads wait at barriers (OMP_WAIT_POLICY), in processes that are a3gnn's own and in those of users.

Threads that spin stall each other for whole time slices once the cores have other work, be it a sampling thread of
ours. Sleeping ones make small steps about 1.4 times slower on an idle machine, and spare up to 18 times beside other
work (`benchmarks/wait_policy.py` at commit 10d4978). So the processes that a3gnn starts let them sleep, unless the
environment says otherwise. OpenMP reads the variable once, when torch is loaded: processes of users are left as they
are.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "OMP_WAIT_POLICY"
_ASLEEP = "PASSIVE"


def adopt() -> None:
    """Lets this process' OpenMP threads sleep, for entry points of ours; does nothing once torch is loaded."""
    if "torch" not in sys.modules:
        os.environ.setdefault(VARIABLE, _ASLEEP)


def here() -> str:
    """Returns this process' policy, in capitals; empty for OpenMP's own, which spins for a while and then sleeps."""
    return os.environ.get(VARIABLE, "").strip().upper()


def of_trials() -> str:
    """Returns the policy of trials that this process starts, likewise."""
    return here() if VARIABLE in os.environ else _ASLEEP
