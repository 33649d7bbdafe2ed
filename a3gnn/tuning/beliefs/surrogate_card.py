"""`surrogate_card`: scores the surrogate's predictions on unseen measurements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from a3gnn.notify import ConversionProgress
from a3gnn.profiling.store.existing import existing_rows
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn_surrogate.card import ModelCard
from a3gnn_surrogate.evaluate import evaluate


def surrogate_card(
    store: str | Path | None = None, seed: int = 0, notify: Callable[[str], None] | None = None
) -> ModelCard:
    """Returns the scores of the surrogate on the shipped measurements and those of a store.

    Args:
        store: A path or an SQLAlchemy URL; None for `DEFAULT_STORE`, if there is one.
        seed: Decides the folds, and the samples that trees see.
        notify: Takes lines of progress.

    Raises:
        StoreError: There is no store at `store`, or it can't be read.
    """
    return evaluate([*shipped_measurements(), *existing_rows(store)], seed=seed, progress=ConversionProgress(notify))
