"""Rows from a store to a file, and from a file to a store; only where nothing is wrong with any of them."""

from __future__ import annotations

from pathlib import Path

from a3gnn.errors import StoreError
from a3gnn.profiling.store.check import Checked, check_file, check_store
from a3gnn.profiling.store.jsonl import write_measurements
from a3gnn.profiling.store.store import ProfileStore

#: So many faults are named in an error. Guess.
_NAMED = 5


def export_rows(store: ProfileStore, path: Path) -> int:
    """Writes every row of `store` to `path`, with provenance, and returns their number.

    Raises:
        StoreError: Something is wrong with a row, or the file can't be written; nothing was changed.
    """
    found = check_store(store)
    _refuse(found, "nothing was exported; a3gnn profiles check names every fault")
    return write_measurements(path, found.sound.values(), provenance=True)


def import_rows(path: Path, place: str) -> tuple[int, int]:
    """Adds the rows of a file to a store: all or none; returns how many were added, and how many were in the file.

    A store holds one row per configuration, task, graph, hardware and version: one that is there already stays, and
    another of the same is left out.

    Args:
        path: The file.
        place: The store's path or SQLAlchemy URL; it is made where there is none, and the file is sound.

    Raises:
        StoreError: Something is wrong with the file or a row of it, or the store can't be written; it is as it was.
    """
    found = check_file(path)
    _refuse(found, f"nothing was imported; a3gnn profiles check {path} names every fault")
    with ProfileStore.open(place) as store:
        return store.add_missing(found.sound.values()), len(found.sound)


def _refuse(found: Checked, remedy: str) -> None:
    if found.faults:
        named = "; ".join(fault.describe() for fault in found.faults[:_NAMED])
        more = len(found.faults) - _NAMED
        raise StoreError(f"{named}{f'; and {more:,} more faults' if more > 0 else ''}: {remedy}")
