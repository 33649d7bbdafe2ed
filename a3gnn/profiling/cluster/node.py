"""Runs trials on a machine of the cluster, in one of Ray's processes, as a local study does.

Ray's process carries out one order at a time and then stays for the next. It keeps the server that forks trials
(`LocalExecutor`). However the process ends, that closes the server's stdin, so the server and its trial end too. The
process ends when its tune ends, and when Ray ends on its machine.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any, Literal

from a3gnn.errors import A3GNNError, GraphError, UsageError
from a3gnn.graphs.folder import read_folder
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.verify import verify
from a3gnn.hardware import Hardware
from a3gnn.machine.probe import bare_machine
from a3gnn.measurement import MEASUREMENT_VERSION, Metrics
from a3gnn.process.child import die_with_parent
from a3gnn.process.machine_turn import call_this_process, seconds_waited
from a3gnn.profiling.cluster.connection import START
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.known import drop_oldest
from a3gnn.profiling.request import TrialRequest
from a3gnn.storage.atomic import need_room, replacing
from a3gnn.storage.cache import cache_root
from a3gnn.storage.cache_content import remove_abandoned
from a3gnn.storage.graph_copies import graph_folder
from a3gnn.task import Task
from a3gnn.training.compile_ahead import KernelSet, compile_ahead
from a3gnn.units import format_size
from a3gnn.version import __version__

#: began: the machine was free. line: a line for people. result: the order's result. refused: the message of an
#: `A3GNNError`. broken: the traceback of any other error.
NodeMessage = tuple[Literal["began", "line", "result", "refused", "broken"], Any]
Notify = Callable[[str], None]
#: Ray sets it to the cores that it counts, which may differ from the cores of a local trial.
_SET_BY_RAY = "OMP_NUM_THREADS"


def carry_out(order: Mapping[str, Any], source: Any = None) -> Iterator[NodeMessage]:
    """Carries out `order`, and yields its messages; the last one is the result or an error.

    Args:
        order: The task ("probe", "make_ready" or "run_trial") and its arguments, as JSON types, with the hardware's
            fingerprint and the versions from `expected`.
        source: The `GraphSource` actor that has the graph.
    """
    die_with_parent()  # Ray's own check takes an ended parent for a running one if nobody reaps it
    said: SimpleQueue[NodeMessage] = SimpleQueue()
    threading.Thread(target=_carry_out, args=(order, source, said), daemon=True).start()
    yield "began", None
    last = False
    while not last:
        answer = said.get()
        last = answer[0] != "line"
        yield answer


def expected(fingerprint: str) -> dict[str, Any]:
    """Returns the part of an order that names the hardware and versions that may carry it out."""
    return {"fingerprint": fingerprint, "versions": _versions()}


def received(
    fingerprint: str, files: Mapping[str, int], read: Callable[[str, int], bytes], notify: Callable[[str], None]
) -> Path:
    """Returns the folder of a graph in this machine's cache folder; fetches a missing or damaged graph first.

    The fetched graph must match the fingerprint before it counts. Remains of an interrupted fetch are removed.

    Args:
        fingerprint: Fingerprint of the graph's content.
        files: The files of its converted folder, with their sizes in bytes.
        read: Returns the bytes of a file from an offset on, at least one byte.
        notify: Receives lines for people.

    Raises:
        GraphError: It can't be written, or a different graph arrived; no files are left then.
    """
    folder = graph_folder(cache_root(), fingerprint)
    if _holds(folder, fingerprint):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    remove_abandoned(folder)
    needed = sum(files.values())
    notify(f"fetching the graph, {format_size(needed)}, once for this machine")
    try:
        with replacing(folder) as draft:
            need_room(draft.parent, needed)
            draft.mkdir()
            for name, size in files.items():
                _fetch(draft / name, size, read)
            _check(draft, fingerprint)
    except OSError as error:
        raise GraphError(f"the graph can't be written to {folder}: {error}; nothing was left there") from error
    return folder


class _Here:
    """The state that this process keeps between orders."""

    def __init__(self) -> None:
        self.notify: Notify = lambda line: None
        self.executor = LocalExecutor(lambda line: self.notify(line))
        self.machine = bare_machine(self.executor.worker)
        call_this_process(f"a trial through Ray, on the machine {self.machine.label or self.machine.fingerprint}")


def _carry_out(order: Mapping[str, Any], source: Any, said: SimpleQueue[NodeMessage]) -> None:
    def notify(line: str) -> None:
        said.put(("line", line))

    try:
        _refuse_versions(order["versions"])
        _undo_threads()
        here = _here()
        here.notify = notify
        _refuse_hardware(here.machine, order["fingerprint"])
        work = {"probe": _probe, "make_ready": _make_ready, "run_trial": _run_trial}[order["what"]]
        said.put(("result", work(here, order, source)))
    except A3GNNError as error:
        said.put(("refused", str(error)))
    except BaseException:
        said.put(("broken", traceback.format_exc()))


def _probe(here: _Here, order: Mapping[str, Any], source: Any) -> dict[str, Any]:
    if (nice := os.nice(0)) > 0:
        here.notify(
            f"trials there run at nice {nice}, after all other work of the machine; RAY_worker_niceness=0 in the "
            "environment of its ray start changes that"
        )
    return {"hardware": here.executor.probe().to_dict()}


def _make_ready(here: _Here, order: Mapping[str, Any], source: Any) -> dict[str, Any]:
    """Fetches the graph and compiles the kernels for the order's task; returns the graph's folder."""
    import ray

    def read(name: str, offset: int) -> bytes:
        piece: bytes = ray.get(source.read.remote(graph["folder"], name, offset))
        return piece

    compile_ahead(KernelSet(), here.notify)
    graph = order["graph"]
    folder = received(graph["fingerprint"], graph["files"], read, here.notify)
    here.executor.make_ready(Graph.load(folder), Task.from_dict(order["task"]))
    return {"folder": str(folder)}


def _run_trial(here: _Here, order: Mapping[str, Any], source: Any) -> dict[str, Any]:
    """Runs the order's trial; returns its outcome, its curve's state if that is new, and the seconds of waiting."""
    begun, waited = time.monotonic(), seconds_waited()
    folder = _make_ready(here, order, source)["folder"]
    request = TrialRequest.from_dict(order["request"])
    state = state_here(request.curve_state) if order["state"] is not None else None
    before = "" if state is None else _with_state(state, order["state"])
    request = dataclasses.replace(request, graph_folder=folder, curve_state="" if state is None else str(state))
    ready_s = time.monotonic() - begun - (seconds_waited() - waited)
    outcome = here.executor.run(request)
    new = state is not None and state_digest(state) not in ("", before)
    content = state.read_bytes() if state is not None and new else None
    drop_oldest(cache_root())
    return {
        "metrics" if isinstance(outcome, Metrics) else "failure": outcome.to_dict(),
        "state": content,
        "waited_s": ready_s + seconds_waited() - waited,
    }


def _with_state(path: Path, sent: Mapping[str, Any]) -> str:
    """Updates the state at `path` to the study's, if the study has one, and returns its digest."""
    found = state_digest(path)
    if not sent["digest"] or found == sent["digest"]:
        return found
    import ray

    keep_state(path, ray.get(sent["content"]))
    return str(sent["digest"])


@cache
def _here() -> _Here:
    return _Here()


def _versions() -> dict[str, Any]:
    return {"a3gnn": __version__, "measurements": MEASUREMENT_VERSION}


def _refuse_versions(wanted: Mapping[str, Any]) -> None:
    if wanted != _versions():
        raise UsageError(
            f"the machine must have the study's versions, {wanted}, got {_versions()}; install the same a3gnn"
        )


def _refuse_hardware(machine: Hardware, fingerprint: str) -> None:
    if machine.fingerprint != fingerprint:
        raise UsageError(
            f"Ray was started for a machine of {fingerprint}, but this machine is {machine.fingerprint}: its cores, "
            f"memory, GPUs or label differ; stop Ray there, and start it again by {START}"
        )


def _undo_threads() -> None:
    """Forgets the number of threads that Ray set, unless the user set one before Ray started."""
    with open("/proc/self/environ", "rb") as file:
        given = {entry.partition(b"=")[0] for entry in file.read().split(b"\0")}
    if _SET_BY_RAY.encode() not in given:
        os.environ.pop(_SET_BY_RAY, None)


def _holds(folder: Path, fingerprint: str) -> bool:
    try:
        return read_folder(folder).fingerprint == fingerprint
    except GraphError:
        return False


def _fetch(path: Path, size: int, read: Callable[[str, int], bytes]) -> None:
    with path.open("xb") as file:
        while (offset := file.tell()) < size:
            piece = read(path.name, offset)
            if not piece:
                raise GraphError(
                    f"{path.name} has {size} bytes, but only {offset} arrived, because the file has changed"
                )
            file.write(piece)


def _check(folder: Path, fingerprint: str) -> None:
    problems = [f"{finding.name}: {finding.problem}" for finding in verify(folder) if finding.problem]
    if not problems and (found := read_folder(folder).fingerprint) != fingerprint:
        problems = [f"the fingerprint must be {fingerprint}, got {found}"]
    if problems:
        raise GraphError(
            f"the received graph differs from the sent graph: {'; '.join(problems)}; check it on its machine with "
            "a3gnn graph verify, and try again if it is sound"
        )


def state_here(path: str) -> Path:
    """Returns the path on this machine for the state that another machine keeps at `path`."""
    return cache_root() / "curves" / Path(path).name


def state_digest(path: Path) -> str:
    """Returns a hash of the state at `path`; "" if there is none."""
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except FileNotFoundError:
        return ""


def keep_state(path: Path, content: bytes) -> None:
    """Writes a received state, whole or not at all.

    Raises:
        OSError: It can't be written.
    """
    with replacing(path) as draft:
        draft.write_bytes(content)


def keep_state_or_tell(path: Path, content: bytes, notify: Callable[[str], None]) -> None:
    """Writes a received state, or notifies of the error, because the trial is worth more than its state."""
    try:
        keep_state(path, content)
    except OSError as error:
        notify(f"the state of a learning curve can't be stored, so a longer curve starts anew: {error}")


def sent_state(path: Path, ray: ModuleType, notify: Callable[[str], None]) -> dict[str, Any] | None:
    """Returns the state at `path` for an order: its digest, and its content in Ray's object store.

    Returns None, and notifies, if it can't be sent: the trial then learns its curve from the start.
    """
    try:
        known = state_digest(path)
        return {"digest": known, "content": ray.put(path.read_bytes()) if known else None}
    except (ray.exceptions.RayError, OSError) as error:
        notify(f"the state of a learning curve can't be sent, so the curve starts anew: {error}")
        return None
