"""Results in a file of JSON lines, each on disk as soon as it is there, so that an interrupted benchmark goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class ResultLines:
    """Results by key; one that is put again takes the place of the first.

    Args:
        path: Where they are; made, with its folder, where it is not there. A last line that an interruption cut short
            is left out, and cut off the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        if lines and not lines[-1].endswith("\n"):
            lines.pop()
            path.write_text("".join(lines), encoding="utf-8")
        entries = [json.loads(line) for line in lines]
        self._values = {tuple(entry["key"]): entry["value"] for entry in entries}

    def get(self, *key: str | int) -> Any:
        """Returns the result of `key` as JSON types, or None where there is none."""
        return self._values.get(key)

    def put(self, *key: str | int, value: Any) -> None:
        """Keeps `value`, which JSON can hold and is not None, as the result of `key`."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": list(key), "value": value}) + "\n")
        self._values[key] = value
