"""`RayExecutor`: trials on a machine of a Ray cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from a3gnn.errors import A3GNNError
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.notify import LOOK_S, PATIENCE_S
from a3gnn.option_names import call, option
from a3gnn.process.machine_turn import note_waited
from a3gnn.profiling.cluster import node
from a3gnn.profiling.cluster.connection import START, ClusterNode, Connection, graph_files, only_kind
from a3gnn.profiling.request import TrialRequest
from a3gnn.task import Task

#: Seconds until Ray lists the actors of studies that chose at the same time. It takes milliseconds.
_SETTLE_S = LOOK_S
#: A study stays at its machine after this many choices, because few studies begin meanwhile.
_MOST_CHOICES = 8
#: Machines that may be lost before an order other than a trial is given up: a request that ends them is no accident.
_MOST_LOST = 3


class Place(NamedTuple):
    """The machine that runs a study's trials."""

    machine: ClusterNode
    source: Any  # the actor that stands for the study in the count of studies, and sends graphs to the machine


class _LostError(Exception):
    """The machine, or Ray's process on it, ended in the middle of an order."""


class RayExecutor:
    """Runs trials on the machines of one kind in a Ray cluster: a `MachineExecutor`.

    All trials of a study run on one machine: the one with the fewest studies when it begins. If that machine is lost,
    they continue on another one of the kind. A trial takes all of the machine that Ray knows of, and waits its turn
    among a3gnn's other work there. It runs there as in a `LocalExecutor`.

    Args:
        address: HOST:PORT of the cluster's head; None for the cluster of this machine, or $RAY_ADDRESS.
        machines: The name of the kind; None if the cluster has only one.
        notify: Receives lines for people.

    Attributes:
        kind: The machines, as they were at first.

    Raises:
        A3GNNError: There is no cluster, or no machine for trials in it.
        MissingDependencyError: Ray is not installed.
        UsageError: There is no such kind, or there are several and none was named.
    """

    def __init__(
        self, address: str | None = None, machines: str | None = None, notify: Callable[[str], None] = lambda line: None
    ) -> None:
        self._cluster = Connection(address)
        try:
            self.kind = only_kind(self._cluster.kinds(), machines)
        except BaseException:
            self._cluster.close()
            raise
        self._notify = notify
        self._home: ClusterNode | None = None
        self._lost: set[str] = set()
        self._source: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends this study's work in the cluster, and the connection."""
        self._leave()
        self._cluster.close()

    def probe(self) -> Hardware:
        """Returns the machine's hardware, probed there (`probe_hardware`)."""
        return Hardware.from_dict(self._surely({"what": "probe"})["hardware"])

    def make_ready(self, graph: Graph, task: Task) -> float:
        """Sends the graph, which is on disk, to the machine and compiles the kernels there; returns the seconds.

        Another machine gets them when the first trial runs there.
        """
        begun = time.monotonic()
        self._surely({"what": "make_ready", **_needed(graph.fingerprint, str(graph.folder), task)})
        return time.monotonic() - begun

    def run(self, request: TrialRequest) -> Metrics | Failure:
        """Returns the trial's outcome; an exception here, such as KeyboardInterrupt, ends the trial there.

        A trial whose machine is lost counts as crashed, which is a failure by chance. The next one runs elsewhere.

        Raises:
            A3GNNError: No machine of the kind is left, or the graph can't be sent.
        """
        setting = request.setting
        order = {
            "what": "run_trial",
            "request": request.to_dict(),
            "state": self._sent_state(request),
            **_needed(setting.graph.fingerprint, request.graph_folder, setting.task),
        }
        home = self._settled()
        try:
            found = self._ask(home, order)
        except _LostError as lost:
            self._lost.add(home.node)
            return Failure(FailureKind.CRASHED, f"the machine {home.name} was lost during the trial: {lost}")
        except self._cluster.ray.exceptions.OutOfMemoryError as error:
            return Failure(FailureKind.OUT_OF_MEMORY, _no_memory(home, error))
        note_waited(found["waited_s"])
        if found["state"] is not None:
            node.keep_state_or_tell(Path(request.curve_state), found["state"], self._notify)
        return Metrics.from_dict(found["metrics"]) if "metrics" in found else Failure.from_dict(found["failure"])

    def _settled(self) -> ClusterNode:
        """Returns the machine that runs the trials; chooses another one if that was lost.

        Raises:
            A3GNNError: No machine of the kind is left.
        """
        kind = self._cluster.kinds().get(self.kind.name)
        alive = () if kind is None or kind.fingerprint != self.kind.fingerprint else kind.machines
        if self._home is not None and self._home in alive and self._home.node not in self._lost:
            return self._home
        if not alive:
            raise A3GNNError(
                f"no machine of the kind {self.kind.name} is left in the cluster; start Ray on one by {START}, then "
                f"the same {call()} with {option('resume', True)} continues"
            )
        self._leave()
        before = self._home
        self._home, self._source = take_place(self._cluster, alive, self._lost)
        self._lost.discard(self._home.node)
        if before is not None:
            self._notify(f"trials continue on the machine {self._home.name}")
        return self._home

    def _leave(self) -> None:
        if self._source is not None:
            self._cluster.end_source(self._source)
            self._source = None

    def _surely(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the result of an order other than a trial. If a machine is lost, another one runs the order."""
        for _ in range(_MOST_LOST):
            home = self._settled()
            try:
                return self._ask(home, order)
            except _LostError as error:
                lost = error
                self._lost.add(home.node)
                self._notify(f"the machine {home.name} was lost: {lost}")
            except self._cluster.ray.exceptions.OutOfMemoryError as error:
                raise A3GNNError(
                    f"{_no_memory(home, error)}; free memory there, then the same {call()} with "
                    f"{option('resume', True)} continues"
                ) from error
        raise A3GNNError(f"{_MOST_LOST} machines were lost; the last error: {lost}") from lost

    def _ask(self, home: ClusterNode, order: Mapping[str, Any]) -> dict[str, Any]:
        """Runs `order` on `home` once it is free, and returns the result; an exception here ends the order there.

        Raises:
            A3GNNError: `home` refuses the order, or can't run it.
            OutOfMemoryError: From Ray: the machine had no memory left.
            _LostError: The machine, or Ray's process there, ended.
        """
        ray = self._cluster.ray
        options = {
            "num_cpus": home.cpus,
            "num_gpus": home.gpus,
            "resources": {self.kind.resource: 1},
            "scheduling_strategy": self._cluster.on(home.node),
            "max_retries": 0,
            "num_returns": "streaming",
        }
        asked = {**node.expected(self.kind.fingerprint), **order}
        answers = ray.remote(node.carry_out).options(**options).remote(asked, self._source)
        try:
            return self._followed(answers, home)
        except ray.exceptions.OutOfMemoryError:
            raise
        except ray.exceptions.RayTaskError as error:
            raise A3GNNError(f"the machine {home.name} can't run a3gnn: {error}") from error
        except ray.exceptions.RayError as error:
            raise _LostError((str(error).strip() or type(error).__name__).splitlines()[0]) from error
        except BaseException:
            with suppress(ray.exceptions.RayError):
                ray.cancel(answers, force=True)
            raise

    def _followed(self, answers: Any, home: ClusterNode) -> dict[str, Any]:
        """Returns the result among the `answers` of `home`, and passes its lines on as they come."""
        ray, asked, told = self._cluster.ray, time.monotonic(), False
        while True:
            ready, _ = ray.wait([answers], timeout=PATIENCE_S)
            if not ready:
                if not told:
                    self._notify(f"waiting for the machine {home.name}, which is busy")
                    told = True
                continue
            said, content = ray.get(next(answers))
            if said == "result":
                found: dict[str, Any] = content
                return found
            if said == "refused":
                raise A3GNNError(f"on the machine {home.name}: {content}")
            if said == "broken":
                raise A3GNNError(f"the machine {home.name} failed at a request:\n{content}")
            if said == "began":
                note_waited(time.monotonic() - asked)
                told = True
            else:
                self._notify(content)

    def _sent_state(self, request: TrialRequest) -> dict[str, Any] | None:
        """Returns this machine's state of the trial's curve, to send with the order; None for a trial without one."""
        curve = request.plan.curve
        if not request.curve_state or curve is None or curve.whole:
            return None
        return node.sent_state(Path(request.curve_state), self._cluster.ray, self._notify)


def take_place(cluster: Connection, machines: Sequence[ClusterNode], lost: Collection[str]) -> Place:
    """Returns a place on the machine with the fewest studies; machines that were `lost` come last.

    Studies that begin together do not see each other, and choose the same machine. So a study looks again once its own
    actor is listed. It leaves if more studies began before it on its machine than run on another one.
    Names of earlier studies sort first, so all studies agree on who leaves.
    """
    choices = 0
    while True:
        machine = min(machines, key=lambda one: (one.node in lost, cluster.studies(one.node), one.name))
        others = [one.node for one in machines if one != machine and one.node not in lost]
        name, source = cluster.start_source(machine.node)
        choices += 1
        try:
            if not others or choices == _MOST_CHOICES:
                return Place(machine, source)
            time.sleep(_SETTLE_S)
            if cluster.studies(machine.node, before=name) <= min(map(cluster.studies, others)):
                return Place(machine, source)
        except BaseException:
            cluster.end_source(source)
            raise
        cluster.end_source(source)


def _no_memory(home: ClusterNode, error: Exception) -> str:
    return f"Ray ended the process, because {home.name} had no memory left: {str(error).splitlines()[0]}"


def _needed(fingerprint: str, folder: str, task: Task) -> dict[str, Any]:
    """Returns the part of an order that names its graph and its task."""
    graph = {"fingerprint": fingerprint, "folder": folder, "files": graph_files(Path(folder))}
    return {"graph": graph, "task": task.to_dict()}
