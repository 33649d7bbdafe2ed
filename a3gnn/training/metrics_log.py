"""`metrics.jsonl`: one JSON object per finished epoch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from a3gnn.storage.atomic import write_text
from a3gnn.training.progress import EpochResult


class MetricsLog:
    """A file that holds one line per epoch and is whole after every epoch.

    Args:
        path: The file.
        results: Epochs that a resumed run has finished; lines of later ones, which will be trained again, are dropped.
    """

    def __init__(self, path: Path, results: Sequence[EpochResult]) -> None:
        self._path = path
        write_text(path, "".join(map(_line, results)))

    def append(self, result: EpochResult) -> None:
        """Adds `result`, on its way to the disk when this returns."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(result))


def _line(result: EpochResult) -> str:
    return json.dumps(result.to_dict()) + "\n"
