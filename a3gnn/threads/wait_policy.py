"""How OpenMP's threads wait at barriers (OMP_WAIT_POLICY), in a3gnn's own processes and in users' processes.

Threads that spin stall each other for whole time slices if the cores have other work, even a sampling thread of a3gnn.
Sleeping threads make small steps about 1.4 times slower on an idle machine, but up to 18 times faster beside other work
(`benchmarks/wait_policy.py` at commit 10d4978). So the processes that a3gnn starts let them sleep, unless the
environment says otherwise. OpenMP reads the variable once, when torch is loaded, so users' processes are left
unchanged.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "OMP_WAIT_POLICY"
_ASLEEP = "PASSIVE"


def adopt() -> None:
    """Lets this process' OpenMP threads sleep; for entry points of a3gnn, and without effect after torch is loaded."""
    if "torch" not in sys.modules:
        os.environ.setdefault(VARIABLE, _ASLEEP)


def here() -> str:
    """Returns this process' policy, in capitals; "" for OpenMP's own, which spins for a while and then sleeps."""
    return os.environ.get(VARIABLE, "").strip().upper()


def of_trials() -> str:
    """Returns the policy, in capitals, of trials that this process starts."""
    return here() if VARIABLE in os.environ else _ASLEEP
