"""Opens the folder of a new or resumed tune, and stores what a resumed run must repeat: options, speeds, versions."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import platform
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.errors import A3GNNError, UsageError
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.measurement import MEASUREMENT_VERSION
from a3gnn.option_names import option
from a3gnn.setting import Setting
from a3gnn.storage.atomic import write_text
from a3gnn.storage.claim import is_vacant
from a3gnn.task import Task
from a3gnn.tuning.study.journal import Journal
from a3gnn.tuning.study.request import TuneRequest
from a3gnn.tuning.study.trial import Trial
from a3gnn.units import count
from a3gnn.version import __version__

#: The file with the options of the tune.
_REQUEST = "request.json"
#: Options that may change when a tune is resumed: a larger budget continues a finished tune.
_MAY_CHANGE = {"budget"}
#: The file with the speeds of matrix products that the tune started with, and the stored fields of the machine.
_FILE = "product_speeds.json"
_NAMES = (
    "gemm_flops_per_s",
    "bf16_gemm_flops_per_s",
    "device_gemm_flops_per_s",
    "device_bf16_gemm_flops_per_s",
)
#: Packages that influence results.
_VERSIONS_OF = ("torch", "torch_geometric", "numba", "numpy", "stable-baselines3", "optuna")


def open_folder(folder: Path, request: TuneRequest, resume: bool) -> Journal:
    """Returns the journal in `folder`; creates the folder and an empty journal unless the tune is resumed.

    Raises:
        UsageError: The folder can't be made. Or it is not empty and `resume` is off. Or it holds no tune to resume, or
            the tune of another request.
    """
    check_folder(folder, resume)
    if resume:
        check_request(folder, request)
        return Journal(folder)
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
    """Raises a `UsageError` if the tune in `folder` has other options than `request`, apart from the budget."""
    before, asked = (_flat(json.loads(json.dumps(one.to_dict()))) for one in (read_request(folder), request))
    changed = sorted(name for name in {*asked, *before} - _MAY_CHANGE if asked.get(name) != before.get(name))
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
    return UsageError(
        f"{folder} must be the --out folder of an a3gnn tune, but it holds no {name}; "
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
    write_text(folder / _FILE, json.dumps({name: getattr(hardware.profile, name) for name in _NAMES}))


def with_kept_speeds(folder: Path, hardware: Hardware) -> Hardware:
    """Returns `hardware` with the product speeds that the tune in `folder` started with, so its space stays the same.

    Tunes of older versions have no such file; they continue with the speeds of `hardware`.

    Raises:
        UsageError: The file was not written by `keep_product_speeds`.
    """
    try:
        kept = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        speeds = {name: float(kept[name]) for name in _NAMES}
    except FileNotFoundError:
        return hardware
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder / _FILE} must hold the speeds of matrix products that the tune started with: {error!r}; remove "
            "it to go on with those of now"
        ) from error
    profile = MachineProfile.from_dict(hardware.profile.to_dict() | speeds)
    return dataclasses.replace(hardware, profile=profile)


def versions() -> dict[str, str]:
    """Returns the versions of a3gnn, of Python, and of the installed packages that influence results."""
    found = {"a3gnn": __version__, "python": platform.python_version()}
    for name in _VERSIONS_OF:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
