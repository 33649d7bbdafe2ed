"""`forget_failures`: lets a tune repeat failed trials, once their cause is fixed."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

from a3gnn.profiling.store.store import ProfileStore
from a3gnn.storage.atomic import write_text
from a3gnn.tuning.study.journal import Journal
from a3gnn.tuning.study.state import TuneState

#: The file for removed trials, in the folder of the tune.
FORGOTTEN = "forgotten.jsonl"


def forget_failures(folder: Path, store: ProfileStore) -> int:
    """Removes the failed trials of a tune, which must not be running, and returns their number.

    When the tune is resumed, their share of the budget is free again, and their configurations may be chosen again. The
    trials move to forgotten.jsonl. Their rows are removed from the store, which would otherwise return the failures. If
    the process is killed in between, the function can be called again.

    Args:
        folder: The tune's folder.
        store: The tune's store of measurements.

    Raises:
        ConfigError: The folder holds no journal of this version.
        StoreError: The store can't be written.
    """
    journal = Journal(folder)
    trials = journal.read()
    failed = [trial for trial in trials if trial.measurement.metrics is None]
    if not failed:
        return 0
    with (folder / FORGOTTEN).open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(trial.to_dict()) + "\n" for trial in failed)
        file.flush()
        os.fsync(file.fileno())
    for trial in failed:
        store.remove(trial.measurement)
    kept = [trial for trial in trials if trial.measurement.metrics is not None]
    dataclasses.replace(TuneState.read(folder, trials), finished_budget=None).write(folder)
    write_text(journal.path, "".join(json.dumps(trial.to_dict()) + "\n" for trial in kept))
    return len(failed)
