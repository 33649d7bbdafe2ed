"""`surrogate_card`: how well a tune's predictions hold on what they have not seen."""

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
        seed: Decides folds, and what trees see.
        notify: Takes lines that say how far it is.

    Raises:
        StoreError: There is no store at `store`, or it can't be read.
    """
    return evaluate([*shipped_measurements(), *existing_rows(store)], seed=seed, progress=ConversionProgress(notify))
