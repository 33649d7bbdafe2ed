"""`forget_failures`: trials that failed may be made again, once what made them fail is mended."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

from a3gnn.profiling.store.store import ProfileStore
from a3gnn.storage.atomic import write_text
from a3gnn.tuning.study.journal import Journal
from a3gnn.tuning.study.state import TuneState

#: Where they are kept, in the folder of the tune.
FORGOTTEN = "forgotten.jsonl"


def forget_failures(folder: Path, store: ProfileStore) -> int:
    """Takes the trials that failed out of a tune that does not run, and returns how many there were.

    A resumed one has as much more of its budget, and may choose their configurations again. They are kept in
    forgotten.jsonl; the rows that the store has of their configurations are removed, so that it does not answer for
    them. Killed in between, it may be called again.

    Args:
        folder: The tune's.
        store: Where it keeps measurements.

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
