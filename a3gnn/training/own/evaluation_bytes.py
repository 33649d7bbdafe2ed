"""`evaluation_bytes`: what evaluating a model of the user's may take at a time."""

from __future__ import annotations

from a3gnn.storage.host_memory import host_memory_bytes

#: Share of a memory limit, and of the machine's memory where there is none: one over these. Guesses.
_OF_LIMIT, _OF_MACHINE = 4, 8


def evaluation_bytes(limit_bytes: int | None) -> int:
    """Returns what a pass may take under a limit on the host's memory; None is none."""
    return host_memory_bytes() // _OF_MACHINE if limit_bytes is None else limit_bytes // _OF_LIMIT
