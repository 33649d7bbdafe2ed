"""The folder of a tune: the options and speeds that a resumed run repeats, the trials, and the progress.

`Journal` writes the trials to disk one by one, so an interrupted tune can be resumed. `TuneState` is the progress.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from a3gnn._fields import from_fields
from a3gnn.characteristics import GraphCharacteristics
from a3gnn.errors import A3GNNError, ConfigError, UsageError
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.measurement import MEASUREMENT_VERSION
from a3gnn.option_names import option
from a3gnn.setting import Setting
from a3gnn.storage.atomic import write_text
from a3gnn.storage.claim import is_vacant
from a3gnn.task import Task
from a3gnn.tuning.study.study import TuneRequest
from a3gnn.tuning.study.trial import SpeedTiming, Trial
from a3gnn.units import count

if TYPE_CHECKING:
    from a3gnn.profiling.store.store import ProfileStore

#: The file with the options of the tune.
_REQUEST = "request.json"
#: Options that may change when a tune is resumed: a larger budget continues a finished tune.
_MAY_CHANGE = {"budget"}
#: The file with the speeds of matrix products that the tune started with, and the stored fields of the machine.
_SPEEDS = "product_speeds.json"
_NAMES = ("gemm_flops_per_s", "bf16_gemm_flops_per_s", "device_gemm_flops_per_s", "device_bf16_gemm_flops_per_s")
#: The file with the progress.
_STATE = "state.json"
#: The file for removed trials, in the folder of the tune.
FORGOTTEN = "forgotten.jsonl"
_Line = TypeVar("_Line")


def open_folder(folder: Path, request: TuneRequest, resume: bool) -> Journal:
    """Returns the journal in `folder`; creates the folder and an empty journal unless the tune is resumed.

    Raises:
        UsageError: The folder can't be made. Or it is not empty and `resume` is off. Or it holds no tune to resume, or
            the tune of another request.
    """
    check_folder(folder, resume)
    if resume:
        check_request(folder, request)
        return Journal.start(folder, keep=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"can't make the folder {folder}: {error.strerror}; choose another {option('out')}") from error
    write_request(folder, request)
    return Journal.start(folder)


def check_folder(folder: Path, resume: bool) -> None:
    """Raises a `UsageError` if a tune can't start in `folder`, or can't be resumed there; writes nothing."""
    if resume:
        read_request(folder)
    elif not is_vacant(folder):
        raise UsageError(
            f"{option('out', folder)} must be a new or empty folder; add {option('resume', True)} to go on with the "
            "tune in it"
        )


def check_request(folder: Path, request: TuneRequest) -> None:
    """Raises a `UsageError` if the tune in `folder` has other options than `request`, apart from the budget.

    The recipe's search is no option: that of another version may differ.
    """
    before, asked = (_flat(json.loads(json.dumps(one.to_dict()))) for one in (read_request(folder), request))
    free = _MAY_CHANGE | ({"search"} if before.get("recipe") and asked.get("recipe") else set())
    changed = sorted(name for name in {*asked, *before} - free if asked.get(name) != before.get(name))
    if changed:
        values = "; ".join(f"{name} was {before.get(name)!r} and is {asked.get(name)!r}" for name in changed)
        raise UsageError(
            f"{option('resume')} goes on with the options of the first run: {values}; choose another {option('out')}"
        )


def _flat(options: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Returns `options` with keys of inner mappings as outer.inner, so a message names only the changed ones."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        found |= _flat(value, f"{within}{name}.") if isinstance(value, Mapping) else {f"{within}{name}": value}
    return found


def check_same(trials: Sequence[Trial], setting: Setting) -> None:
    """Raises a `UsageError` if `trials` ran on another graph or machine, or were measured by another version."""
    graph, hardware = setting.graph, setting.hardware
    for measurement in (trial.measurement for trial in trials):
        before, changes = measurement.setting, []
        if before.graph.fingerprint != graph.fingerprint:
            changes.append(f"graph was {_describe(before.graph)} and is {_describe(graph)}")
        if not before.hardware.may_be(hardware):
            changes.append(f"the machine changed: {_differences(before.hardware, hardware)}")
        if measurement.version != MEASUREMENT_VERSION:
            changes.append(f"measurements were of version {measurement.version} and are of {MEASUREMENT_VERSION}")
        if changes:
            raise UsageError(
                f"{option('resume')} goes on with the graph and the machine of the first run: {'; '.join(changes)}; "
                f"start again in another {option('out')}"
            )


def write_request(folder: Path, request: TuneRequest) -> None:
    """Writes the options of a tune into its folder."""
    write_text(folder / _REQUEST, json.dumps(request.to_dict(), indent=1))


def holds_tune(folder: Path) -> bool:
    """Returns whether a tune was started in `folder`."""
    return (folder / _REQUEST).is_file()


def read_request(folder: Path) -> TuneRequest:
    """Returns the options of the tune in `folder`.

    Raises:
        UsageError: The folder holds no tune, or one of another version.
    """
    try:
        return TuneRequest.from_dict(json.loads((folder / _REQUEST).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        raise no_tune(folder, _REQUEST) from None
    except (OSError, ValueError, KeyError, TypeError, A3GNNError) as error:
        raise UsageError(
            f"{folder / _REQUEST} must be what this version of a3gnn tune was asked for: {error}; tune again, into "
            "another folder"
        ) from error


def no_tune(folder: Path, name: str) -> UsageError:
    """Returns the error for a `folder` that is no tune's, because it lacks the file `name`."""
    missing = "" if folder.exists() else "does not exist: "
    return UsageError(
        f"{folder} must be the --out folder of an a3gnn tune, but {missing}it holds no {name}; "
        f"run a3gnn tune --out {shlex.quote(str(folder))} first"
    )


def repeating_as_before(task: Task, folder: Path) -> Task:
    """Returns `task` with the `repeats` of the tune in `folder`.

    The check whether a training repeats bit for bit is partly luck, so a resumed tune keeps its first result.

    Raises:
        UsageError: The folder holds no tune.
    """
    before = read_request(folder).task.own
    if task.own is None or before is None:
        return task
    return dataclasses.replace(task, own=dataclasses.replace(task.own, repeats=before.repeats))


def _describe(graph: GraphCharacteristics) -> str:
    size = f"{count(graph.num_nodes, 'node')} and {count(graph.num_edges, 'edge')}"
    return f"{graph.name} with {size} ({graph.fingerprint[:8]})"


def _differences(before: Hardware, now: Hardware) -> str:
    """Returns the differing fields of the machines, with both values, as text."""
    names = [field.name for field in dataclasses.fields(Hardware) if field.name != "profile"]
    pairs = [(name, getattr(before, name), getattr(now, name)) for name in names]
    return ", ".join(f"{name} was {old!r} and is {new!r}" for name, old, new in pairs if old != new)


def keep_product_speeds(folder: Path, hardware: Hardware) -> None:
    """Writes the speeds of matrix products of `hardware` into the folder of a new tune."""
    write_text(folder / _SPEEDS, json.dumps({name: getattr(hardware.profile, name) for name in _NAMES}))


def with_kept_speeds(folder: Path, hardware: Hardware) -> Hardware:
    """Returns `hardware` with the product speeds that the tune in `folder` started with, so its space stays the same.

    Tunes of older versions have no such file; they continue with the speeds of `hardware`.

    Raises:
        UsageError: The file was not written by `keep_product_speeds`.
    """
    try:
        kept = json.loads((folder / _SPEEDS).read_text(encoding="utf-8"))
        speeds = {name: float(kept[name]) for name in _NAMES}
    except FileNotFoundError:
        return hardware
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder / _SPEEDS} must hold the speeds of matrix products that the tune started with: {error!r}; remove "
            "it to go on with those of now"
        ) from error
    profile = MachineProfile.from_dict(hardware.profile.to_dict() | speeds)
    return dataclasses.replace(hardware, profile=profile)


class Journal:
    """The file `probes.jsonl` in the folder of a tune, one trial per line; "probe" was once the word for a trial.

    `timings.jsonl` beside it contains one line for each timing of the machine's speed. A trial is written before the
    next timing is made, so both files together determine how it is judged.

    Attributes:
        folder: The tune's folder.
        path: The file of trials.
        timings_path: The file of timings; missing in tunes of older versions.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "probes.jsonl"
        self.timings_path = folder / "timings.jsonl"

    @classmethod
    def start(cls, folder: Path, *, keep: bool = False) -> Self:
        """Returns an empty journal in `folder`, whose names are on disk before any line.

        Args:
            folder: The tune's folder.
            keep: Whether files of an earlier run stay; only missing ones are made.
        """
        journal = cls(folder)
        for path in (journal.path, journal.timings_path):
            if not (keep and path.exists()):
                write_text(path, "")
        return journal

    def append(self, trial: Trial) -> None:
        """Adds `trial`; it is on disk when this returns."""
        _append(self.path, trial.to_dict())

    def append_timing(self, timing: SpeedTiming) -> None:
        """Adds `timing`; it is on disk when this returns."""
        _append(self.timings_path, dataclasses.asdict(timing))

    def read(self, mend: bool = True) -> list[Trial]:
        """Returns the trials, judged by the timings, without an incomplete last line left by an interruption.

        Args:
            mend: Whether to cut such a line off the file. Only for the process that appends to it: otherwise a running
                tune may be writing that line.

        Raises:
            ConfigError: The file is not a journal of this version.
        """
        if not self.path.exists() and not (self.folder / _STATE).exists():
            return []  # the first run was killed before its first trial
        timings = self.timings(mend)
        return [one.judged_by(timings) for one in _read(self.path, Trial.from_dict, mend)]

    def timings(self, mend: bool = True) -> list[SpeedTiming]:
        """Returns the timings; arguments and errors as in `read`."""
        if not self.timings_path.exists():
            return []
        return _read(self.timings_path, lambda fields: from_fields(SpeedTiming, fields), mend)


def _append(path: Path, fields: Mapping[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(fields) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _write(path: Path, trials: Sequence[Trial]) -> None:
    write_text(path, "".join(json.dumps(trial.to_dict()) + "\n" for trial in trials))


def _read(path: Path, parse: Callable[[Mapping[str, Any]], _Line], mend: bool) -> list[_Line]:
    try:
        text = path.read_bytes().decode("utf-8")
        whole = text[: text.rfind("\n") + 1]
        before = whole[: whole.rfind("\n", 0, -1) + 1]
        if "\0" in whole[len(before) :]:  # a loss of power in the last `_append`: its end was written, all of it not
            whole = before
        found = [parse(json.loads(line)) for line in whole.splitlines()]
    except (OSError, ValueError, KeyError, TypeError, A3GNNError) as error:
        raise ConfigError(
            f"{path} must be the journal of a tune by this version of a3gnn: {error}; tune again, into another folder"
        ) from error
    if mend and whole != text:
        write_text(path, whole)
    return found


#: Fields of `state.json` in older versions.
_OLD_FIELDS = ("round_after", "stalls")


@dataclass(frozen=True, slots=True)
class TuneState:
    """The file `state.json` in the folder of a tune.

    Attributes:
        elapsed_s: Wall-clock seconds of all its runs, from the call of `tune` on, without compiling kernels.
        finished_budget: The budget with which it finished, in seconds (float) or trials (int); None before that.
        started: When its first run began, ISO 8601, UTC. Its surrogate starts from the measurements stored by then. ""
            in files of older versions.
        problem: Why its last run ended without a choice, with the remedy; "" if it did not.
        heuristics: The validation and test qualities of predictions without a network, by name; None in files of older
            versions.
        phase: The last phase that began: baseline, search or verify; "" before the first, and in older files.
    """

    elapsed_s: float = 0.0
    finished_budget: float | int | None = None
    started: str = ""
    problem: str = ""
    heuristics: Mapping[str, Mapping[str, float]] | None = None
    phase: str = ""

    def write(self, folder: Path) -> None:
        """Writes the state into `folder`, whole or not at all."""
        write_text(folder / _STATE, json.dumps(dataclasses.asdict(self)))

    @classmethod
    def read(cls, folder: Path, trials: Sequence[Trial]) -> Self:
        """Returns the state in `folder`; a tune of an older version has no such file, and gets it from its `trials`.

        Raises:
            ConfigError: The file is not a state.
        """
        try:
            fields = json.loads((folder / _STATE).read_text(encoding="utf-8"))
            return from_fields(cls, {name: value for name, value in fields.items() if name not in _OLD_FIELDS})
        except FileNotFoundError:
            finished = read_request(folder).budget if (folder / "tuned.json").exists() else None
            return cls(sum(trial.measurement.seconds for trial in trials), finished)
        except (ValueError, TypeError, AttributeError, UsageError) as error:
            raise ConfigError(
                f"{folder / _STATE} must be the state of a tune: {error}; remove it to go on without"
            ) from error


def seconds_so_far(folder: Path, running: bool) -> float | None:
    """Returns the seconds of the tune in `folder`, since its last trial included if `running`; None before it began."""
    path = folder / _STATE
    try:
        found = float(json.loads(path.read_bytes())["elapsed_s"])
        return found + max(0.0, time.time() - path.stat().st_mtime if running else 0.0)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget_failures(folder: Path, store: ProfileStore) -> int:
    """Removes the failed trials of a tune, which must not be running, and returns their number.

    When the tune is resumed, their share of the budget is free again, and their configurations may be chosen again. The
    trials move to forgotten.jsonl. Their rows are removed from the store, which would otherwise return the failures. If
    the process is killed in between, the function can be called again.

    Raises:
        ConfigError: The folder holds no journal of this version.
        StoreError: The store can't be written.
    """
    journal = Journal(folder)
    trials = journal.read()
    failed = [trial for trial in trials if trial.measurement.metrics is None]
    if not failed:
        return 0
    aside = _read(folder / FORGOTTEN, Trial.from_dict, mend=False) if (folder / FORGOTTEN).exists() else []
    moved = {trial.measurement.id for trial in aside}  # by a call that was killed, too
    _write(folder / FORGOTTEN, [*aside, *(trial for trial in failed if trial.measurement.id not in moved)])
    for trial in failed:
        store.remove(trial.measurement)
    kept = [trial for trial in trials if trial.measurement.metrics is not None]
    dataclasses.replace(TuneState.read(folder, trials), finished_budget=None).write(folder)
    _write(journal.path, kept)
    return len(failed)
