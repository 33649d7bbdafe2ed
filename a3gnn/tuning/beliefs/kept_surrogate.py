"""`kept_surrogate`: fits a study's first surrogate once, and stores it in the cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy
import scipy
import sklearn
import xgboost

import a3gnn_surrogate
from a3gnn.errors import StoreError
from a3gnn.option_names import option
from a3gnn.storage.atomic import replacing
from a3gnn.storage.cache import cache_root
from a3gnn.tuning.beliefs import expectations
from a3gnn.tuning.beliefs.expectations import fit_surrogate
from a3gnn.tuning.study.history import History
from a3gnn.units import count
from a3gnn.version import __version__
from a3gnn_surrogate.surrogate import Surrogate

_HOUR_S = 3600.0


def kept_surrogate(history: History, notify: Callable[[str], None]) -> Surrogate:
    """Returns the surrogate that `fit_surrogate` fits to a study without trials.

    Fitting takes seconds, so the surrogate is stored in the cache folder and read from there the next time. Its key
    hashes all rows, and the versions of the code and libraries that fit it.
    """
    assert not history.trials, "trials change what is fitted"
    folder = cache_root() / "surrogates" / _key(history)
    kept = _read(folder, notify)
    if kept is not None:
        return kept
    rows = history.study.corpus
    failed = sum(row.metrics is None for row in rows)
    failures = f" and {count(failed, 'failure')}" if failed else ""
    measured = f"{count(len(rows) - failed, 'measurement')}{failures}"
    notify(f"fitting the surrogate to {measured} (seconds; kept for {_kept_for(history)})")
    fitted = fit_surrogate(history)
    try:
        with replacing(folder) as draft:
            fitted.save(draft)
    except (OSError, StoreError) as error:
        notify(f"the surrogate can't be stored in {folder}, so the next tune fits it again: {error}")
    return fitted


def _kept_for(history: History) -> str:
    """Returns as text which tunes can reuse the surrogate: `_key` in words."""
    study = history.study
    graphs = f"tunes of {study.setting.graph.name}" if _target(history) else "tunes of other graphs"
    return f"{graphs} with {option('seed', study.request.seed)}"


def _target(history: History) -> str:
    """Returns the fingerprint of the study's graph if measurements of it are in the corpus, else ""."""
    graph = history.study.setting.graph.fingerprint
    return graph if any(row.setting.graph.fingerprint == graph for row in history.study.corpus) else ""


def _read(folder: Path, notify: Callable[[str], None]) -> Surrogate | None:
    """Returns the surrogate in `folder`; None if there is none. Removes a damaged one."""
    if not folder.exists():
        return None
    try:
        found = Surrogate.load(folder)
    except StoreError as error:
        notify(f"{error}; it is fitted again")
        shutil.rmtree(folder, ignore_errors=True)
        return None
    with suppress(OSError):  # a3gnn cache judges age by the modification time; an hour is precise enough
        if time.time() - folder.stat().st_mtime > _HOUR_S:
            os.utime(folder)
    return found


def _key(history: History) -> str:
    """Returns a hash of all inputs of the fit: rows, seed, versions, and the graph if there are rows of it."""
    study = history.study
    text = hashlib.blake2b(digest_size=16)
    text.update(json.dumps([*_versions(), study.request.seed, _target(history)]).encode())
    for row in study.corpus:
        text.update(repr(row).encode())  # every field, floats exactly, in a third of the time that JSON takes
    return text.hexdigest()


def _versions() -> list[str]:
    """Returns the versions of the libraries that fit, and a hash of a3gnn's own code for it."""
    sources = hashlib.blake2b(digest_size=16)
    vocabulary, predictions = Path(__file__).parents[2].glob("*.py"), Path(a3gnn_surrogate.__path__[0]).rglob("*.py")
    for path in (*sorted(vocabulary), *sorted(predictions), Path(expectations.__file__)):
        sources.update(path.read_bytes())
    return [__version__, *(one.__version__ for one in (numpy, scipy, sklearn, xgboost)), sources.hexdigest()]
