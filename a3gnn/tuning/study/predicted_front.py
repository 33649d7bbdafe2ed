"""The front that the last search of a tune predicted, kept in its folder to be shown behind what was measured."""

from __future__ import annotations

import json
from pathlib import Path

from a3gnn.errors import ConfigError
from a3gnn.search.result import SearchResult
from a3gnn.storage.atomic import write_text
from a3gnn.tuning.study.trial import Predicted, predicted_row

_FILE = "predicted_front.json"


def keep_predicted_front(folder: Path, search: SearchResult) -> None:
    """Writes the feasible front that `search` predicted; it is empty where nothing is predicted to keep the limits."""
    rows = [predicted_row(search.prediction, i) for i in range(len(search.rows))] if search.feasible else []
    write_text(folder / _FILE, json.dumps(rows))


def read_predicted_front(folder: Path) -> list[Predicted] | None:
    """Returns what is predicted of each configuration on it; None for a tune from before it was kept.

    Raises:
        ConfigError: The file is not such a front.
    """
    try:
        rows: list[Predicted] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder / _FILE} must be a predicted front: {error}; remove it to go on without") from error
    return rows
