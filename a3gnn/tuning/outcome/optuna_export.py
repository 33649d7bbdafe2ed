"""`export_to_optuna`: the trials of a tune in an Optuna storage, which optuna-dashboard opens."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.trial import TrialState
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from a3gnn.errors import StoreError, UsageError
from a3gnn.graphs.conversion.progress import ConversionProgress
from a3gnn.option_names import option
from a3gnn.printable import printable
from a3gnn.search.quiet_optuna import quiet_optuna
from a3gnn.tuning.outcome.kept_tune import KeptTune
from a3gnn.tuning.outcome.optuna_trials import (
    constraint_names,
    directions,
    distributions,
    objective_names,
    optuna_trial,
)
from a3gnn.units import count

#: By which a study is known to be an export; its value is the tune's folder.
_MARK = "a3gnn_tune"
_PERIOD_S = 2.0


class Exported(NamedTuple):
    """What was written.

    Attributes:
        url: The storage.
        study_name: The study in it.
        complete: Trials with values.
        pruned: Trials whose training was ended, or that missed the target.
        failed: Trials that failed.
    """

    url: str
    study_name: str
    complete: int
    pruned: int
    failed: int

    def describe(self) -> str:
        """Returns it in a sentence."""
        trials = count(self.complete + self.pruned + self.failed, "trial")
        return f"{trials} ({self.pruned} pruned, {self.failed} failed) in the study {self.study_name!r} of {self.url}"


def export_to_optuna(
    folder: str | Path,
    url: str,
    *,
    study_name: str | None = None,
    replace: bool = False,
    notify: Callable[[str], None] | None = None,
) -> Exported:
    """Writes the trials of the tune in `folder` into a new study, and returns what was written.

    The play-off's trials are no rows of their own: what they found is the attribute `play_off` of their configurations'
    trials.

    Args:
        folder: The --out of a tune, finished or not.
        url: An SQLAlchemy URL such as sqlite:///optuna.db; the database is made where there is none.
        study_name: By default the graph's name and the folder's.
        replace: Whether an earlier export of that name is replaced; other studies never are.
        notify: Takes lines of progress.

    Raises:
        UsageError: There is no tune, no such database, or a study of that name.
        StoreError: The database can't be opened or written.
    """
    tune = KeptTune.read(folder)
    name = study_name or printable(f"{tune.setting.graph.name} {tune.folder.resolve().name}")
    with quiet_optuna():
        try:
            storage = optuna.storages.RDBStorage(url)
            _make_room(storage, name, replace)
            return _written(tune, storage, url, name, ConversionProgress(notify, _PERIOD_S))
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise UsageError(
                f"{option('optuna')} must be the SQLAlchemy URL of a database such as sqlite:///optuna.db, whose "
                f"driver is installed, got {url!r}: {error}"
            ) from error
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            raise StoreError(f"the Optuna storage {url!r} can't be opened or written: {error}") from error


def _make_room(storage: optuna.storages.RDBStorage, name: str, replace: bool) -> None:
    """Deletes an earlier export called `name`, if that is asked for."""
    try:
        study = storage.get_study_id_from_name(name)
    except KeyError:
        return
    attributes = storage.get_study_user_attrs(study)
    if _MARK not in attributes:
        raise UsageError(
            f"the storage holds a study {name!r} that is no export of a3gnn: choose another {option('study_name')}"
        )
    if not replace:
        raise UsageError(
            f"the storage holds the study {name!r} already, of the tune in {attributes[_MARK]}: choose another "
            f"{option('study_name')}, or {option('replace', True)} to write it anew"
        )
    storage.delete_study(study)


def _written(
    tune: KeptTune, storage: optuna.storages.RDBStorage, url: str, name: str, progress: ConversionProgress
) -> Exported:
    objectives, known = tune.history.objectives, distributions(tune)
    study = optuna.create_study(storage=storage, study_name=name, directions=directions(objectives))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names(objective_names(objectives))
        for key, value in _attributes(tune).items():
            study.set_user_attr(key, value)
        states = []
        for done, trial in enumerate(tune.history.trials):
            found = optuna_trial(tune, trial, known)
            study.add_trial(found)
            states.append(found.state)
            progress("writing trials", done + 1, len(tune.history.trials))
    except BaseException:
        optuna.delete_study(study_name=name, storage=storage)  # whole or not at all
        raise
    counted = (states.count(state) for state in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL))
    return Exported(url, name, *counted)


def _attributes(tune: KeptTune) -> dict[str, Any]:
    """Returns what the study says of itself."""
    request, limits = tune.history.study.request, tune.history.objectives.limits
    return {
        _MARK: printable(str(tune.folder.resolve())),
        "finished": tune.tuned is not None,
        "graph": tune.setting.graph.name,
        "model": tune.setting.task.model,
        "machine": f"{tune.setting.hardware.cpu}, {count(tune.setting.hardware.num_cores, 'core')}",
        "priority": request.priority.text,
        "limits": limits.to_dict(),
        "constraints": constraint_names(tune.history.objectives),
        "max_accuracy_drop_points": request.max_accuracy_drop,
        "intermediate_values": f"validation {limits.metric.label} as a share of 1, after so many mini-batches",
        "choice": None if tune.tuned is None else tune.tuned.config.to_dict(),
        "versions": {} if tune.tuned is None else dict(tune.tuned.versions),
    }
