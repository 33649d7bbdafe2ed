"""`save_study`: downloads a server's study into a local folder, with the files of a local tune."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from a3gnn.errors import A3GNNError, UsageError
from a3gnn.service.client import AbsentError, HttpClient
from a3gnn.service.study_copy import FILES
from a3gnn.storage.atomic import replacing
from a3gnn.tuning.outcome.kept_tune import KeptTune
from a3gnn.tuning.outcome.result import SearchSummary, TuneResult, write_result
from a3gnn.tuning.study.folder import check_folder, read_request, write_request

#: A study without these files has not begun.
_NEEDED = ("request.json", "probes.jsonl")
#: Most bytes of a file. Guess: a trial takes some 5 KB of the journal.
_MOST_BYTES = 256 << 20


def save_study(
    http: HttpClient, path: str, folder: Path, dataset: str | None, notify: Callable[[str], None]
) -> TuneResult | None:
    """Writes the study at `path` of a server to `folder`, whole or not at all, and returns its result.

    Args:
        http: The client of the server.
        path: The study's path on the server.
        folder: A new or empty folder.
        dataset: A dataset that loads the graph on this machine; None for its name on the server.
        notify: Receives lines for people.

    Returns:
        The result, or None if the study has not chosen yet.

    Raises:
        UsageError: The folder is not empty, or the study has measured nothing yet.
        AbsentError: There is no such study, or it has not begun.
        ConfigError: Its files do not match this version.
        A3GNNError: The folder can't be written, such as when the disk is full.
    """
    check_folder(folder, resume=False)
    try:
        found = _save(http, path, folder, dataset, notify)
    except OSError as error:
        raise A3GNNError(
            f"the study can't be written to {folder} ({error.strerror or error}); nothing was left there: make room or "
            "take another folder"
        ) from error
    return found and dataclasses.replace(found, folder=folder)


def _save(
    http: HttpClient, path: str, folder: Path, dataset: str | None, notify: Callable[[str], None]
) -> TuneResult | None:
    with replacing(folder) as draft:
        draft.mkdir()
        for name in FILES:
            try:
                http.download(f"{path}/files/{name}", draft / name, _MOST_BYTES)
            except AbsentError:
                if name in _NEEDED:
                    raise
        if dataset is not None:
            write_request(draft, dataclasses.replace(read_request(draft), spec=dataset))
        found = _result(draft, dataset)
        if found is not None:
            write_result(found, notify)
        written = draft.stat().st_ino
    if folder.stat().st_ino != written:
        raise UsageError(f"{folder} must stay empty while a study is saved, something came into it; choose another")
    return found


def _result(folder: Path, dataset: str | None) -> TuneResult | None:
    """Returns the result of the study in `folder`, with `dataset` as its graph; None if it has not chosen."""
    tune = KeptTune.read(folder)
    if tune.tuned is None:
        return None
    tuned = tune.tuned if dataset is None else dataclasses.replace(tune.tuned, spec=dataset)
    request, trials = tune.history.study.request, tune.history.trials
    not_told = SearchSummary(request.engine, 0, None, None, None, None, 0.0)
    counted = sum(trial.counts for trial in trials)
    return TuneResult(folder, tuned, tune.front, not_told, counted, tune.state.elapsed_s)
