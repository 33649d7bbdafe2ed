"""The folder of a tune: fresh, or the one of an interrupted run of the same request."""

from __future__ import annotations

import json
from pathlib import Path

from a3gnn.errors import UsageError
from a3gnn.tuning.journal import Journal
from a3gnn.tuning.request import TuneRequest

#: Options that may change when a tune is resumed: more budget goes on where the first ended.
_MAY_CHANGE = {"budget"}


def open_folder(folder: Path, request: TuneRequest, resume: bool) -> Journal:
    """Returns the journal in `folder`, empty unless the tune is resumed.

    Raises:
        UsageError: The folder holds a tune and `resume` is off, or one of another request, or none to resume.
    """
    path = folder / "request.json"
    asked = json.loads(json.dumps(request.to_dict()))
    if not resume:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"--out {folder} must be a new or empty folder; add --resume to go on with the tune in it")
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asked, indent=1), encoding="utf-8")
        return Journal.start(folder)
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--resume needs a folder that a tune was started in, got {folder}: {error}") from error
    changed = sorted(name for name in asked if name not in _MAY_CHANGE and asked[name] != before.get(name))
    if changed:
        values = "; ".join(f"{name} was {before.get(name)!r} and is {asked[name]!r}" for name in changed)
        raise UsageError(f"--resume goes on with the options of the first run: {values}; choose another --out")
    return Journal(folder / "probes.jsonl")
