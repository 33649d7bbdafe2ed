"""`Connection`: this process as a driver of a Ray cluster; `MachineKind`: the cluster's machines that take trials."""

from __future__ import annotations

import importlib
import os
import re
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from a3gnn._imports import optional
from a3gnn.errors import A3GNNError, UsageError, unknown_name
from a3gnn.hardware import Hardware
from a3gnn.option_names import option

#: Bytes of one piece of a graph, which lies in Ray's object stores while it is sent. Guess.
PIECE_BYTES = 16 << 20
#: Ray's namespace of all studies' actors.
_NAMESPACE = "a3gnn"
#: Scheme of Ray's addresses for clients outside of the cluster.
_CLIENT = "ray://"
#: The name for all kinds, where several are allowed.
ALL = "all"
#: The custom resource of a machine: its hardware's fingerprint, and its label if any. A trial takes all of it.
_RESOURCE = re.compile("a3gnn-([0-9a-f]{16})(?:-(.+))?")
#: The command that starts Ray on a machine so that it takes trials.
START = """ray start --address HEAD:PORT --resources "$(a3gnn machines --here)\""""


class Connection:
    """Connects this process to a cluster; an existing connection is used, and stays open.

    Args:
        address: HOST:PORT of the cluster's head; None for the cluster of this machine, or $RAY_ADDRESS.

    Attributes:
        ray: The imported `ray` module.

    Raises:
        A3GNNError: No cluster answers.
        MissingDependencyError: Ray is not installed.
        UsageError: The address is one for clients outside of the cluster.
    """

    def __init__(self, address: str | None = None) -> None:
        if address is not None and address.startswith(_CLIENT):
            raise UsageError(
                f"{option('ray_address')} must be HOST:PORT of the cluster's head, got {address}; a study runs on a "
                "machine of the cluster, and other machines fetch its graph from there"
            )
        self.ray: ModuleType = optional("ray", "ray", option("executor", "ray"))
        self._own = not self.ray.is_initialized()
        if self._own:
            self._connect(address)

    def close(self) -> None:
        """Ends the connection, and all work of this process in the cluster."""
        if self._own and self.ray.is_initialized():
            self.ray.shutdown()

    def kinds(self) -> dict[str, MachineKind]:
        """Returns the kinds of machines that now take trials, by name.

        Raises:
            UsageError: Machines of different hardware have one label.
        """
        return machine_kinds(self.ray.nodes())

    def start_source(self, node: str) -> tuple[str, Any]:
        """Starts an actor on this machine that sends graphs to `node`, and that counts as a study there.

        Returns the actor's name and the actor. Names for one node sort by time of creation.
        """
        here = self.ray.get_runtime_context().get_node_id()
        name = f"{node}-{time.time_ns():020d}-{os.urandom(8).hex()}"
        options = {"num_cpus": 0, "name": name, "namespace": _NAMESPACE, "scheduling_strategy": self.on(here)}
        return name, self.ray.remote(GraphSource).options(**options).remote()

    def end_source(self, source: Any) -> None:
        """Ends an actor of `start_source`, unless it has ended."""
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(source)

    def studies(self, node: str, before: str | None = None) -> int:
        """Returns the number of studies that run their trials on `node`: the actors named for it.

        Args:
            node: Ray's id of the node.
            before: Count only actors whose names sort before this one.
        """
        actors = self.ray.util.list_named_actors(all_namespaces=True)
        names = [actor["name"] for actor in actors if actor["namespace"] == _NAMESPACE]
        return sum(name.startswith(node) and (before is None or name < before) for name in names)

    def on(self, node: str) -> Any:
        """Returns Ray's strategy that schedules on `node` or not at all."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node, soft=False)

    def _connect(self, address: str | None) -> None:
        # Ray would hide GPUs that it was not given, and warns that this is going to change.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Ray would print messages about lost machines to stdout, which is for results; we print our own.
        internal: Any = importlib.import_module("ray._private.worker")
        internal.print_to_stdstream = lambda *args, **options: None
        try:
            with _signals_kept():
                self.ray.init(
                    address=address or "auto", namespace=_NAMESPACE, log_to_driver=False, logging_level="ERROR"
                )
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = "on this machine" if address is None else f"at {address}"
            raise A3GNNError(
                f"can't use a Ray cluster {where}: {str(error).strip()}; start one as in docs/howto/ray.md: first ray "
                f"start --head, then on each machine for trials {START}; {option('ray_address')} takes HOST:PORT"
            ) from error


class GraphSource:
    """An actor on the study's machine, from which other machines fetch a graph."""

    def read(self, folder: str, name: str, offset: int) -> bytes:
        """Returns up to `PIECE_BYTES` of the file `name` in the converted graph's folder, from byte `offset` on."""
        with (Path(folder) / name).open("rb") as file:
            file.seek(offset)
            return file.read(PIECE_BYTES)


def graph_files(folder: Path) -> dict[str, int]:
    """Returns the graph's own files in `folder` with their sizes in bytes, without files derived from them."""
    return {path.name: path.stat().st_size for path in [*sorted(folder.glob("*.npy")), folder / "meta.json"]}


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restores the handler of SIGTERM after the block, because Ray sets its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        with suppress(TypeError):  # one that was not set from Python can't be set again
            signal.signal(signal.SIGTERM, before)


class ClusterNode(NamedTuple):
    """A node of the cluster that takes trials.

    Attributes:
        node: Ray's id of the node.
        host: Name of its host.
        cpus: Ray's count of its cores. A trial takes all of them.
        gpus: Ray's count of its GPUs. A trial takes all of them.
    """

    node: str
    host: str
    cpus: float
    gpus: float

    @property
    def name(self) -> str:
        """The name for users; several nodes may be on one host."""
        return f"{self.host} ({self.node[:8]})"


@dataclass(frozen=True, slots=True)
class MachineKind:
    """Machines of equal hardware, which count as one machine in measurements.

    Attributes:
        fingerprint: Fingerprint of their hardware.
        label: The user's name for them; "" for none.
        machines: The machines that are alive.
    """

    fingerprint: str
    label: str
    machines: tuple[ClusterNode, ...]

    @property
    def name(self) -> str:
        """The label, or else the fingerprint."""
        return self.label or self.fingerprint

    @property
    def resource(self) -> str:
        """Name of the custom resource; each machine has one unit of it."""
        return _resource(self.fingerprint, self.label)

    def to_dict(self) -> dict[str, Any]:
        """Returns the kind as JSON types."""
        machines = [machine._asdict() for machine in self.machines]
        return {"name": self.name, "fingerprint": self.fingerprint, "label": self.label, "machines": machines}


def resources_of(hardware: Hardware) -> dict[str, int]:
    """Returns the argument of `ray start --resources` for a machine of this hardware."""
    return {_resource(hardware.fingerprint, hardware.label): 1}


def machine_kinds(nodes: Iterable[Mapping[str, Any]]) -> dict[str, MachineKind]:
    """Returns the kinds of machines among the live `nodes`, by name.

    Args:
        nodes: The list from `ray.nodes()`.

    Raises:
        UsageError: Machines of different hardware have one label.
    """
    found: dict[tuple[str, str], list[ClusterNode]] = {}
    for node in nodes:
        has: Mapping[str, float] = node["Resources"] if node["Alive"] else {}
        for match in filter(None, map(_RESOURCE.fullmatch, has)):
            machine = ClusterNode(node["NodeID"], node["NodeManagerHostname"], has.get("CPU", 0.0), has.get("GPU", 0.0))
            found.setdefault((match[1], match[2] or ""), []).append(machine)
    kinds: dict[str, MachineKind] = {}
    for (fingerprint, label), machines in sorted(found.items(), key=lambda one: (one[0][1] or one[0][0], one[0][0])):
        kind = MachineKind(fingerprint, label, tuple(sorted(machines, key=lambda machine: machine.name)))
        if (other := kinds.setdefault(kind.name, kind)) is not kind:
            raise UsageError(
                f"machines with one label must have equal hardware, but {label} is on {_names(other)} of "
                f"{other.fingerprint} and on {_names(kind)} of {fingerprint}; give them different labels"
            )
    return kinds


def asked_kinds(kinds: Mapping[str, MachineKind], asked: str | None) -> list[MachineKind]:
    """Returns the kinds named in `asked`.

    Args:
        kinds: The cluster's kinds, by name.
        asked: Names separated by commas, or "all"; None for the only kind.

    Raises:
        A3GNNError: The cluster has no machine for trials.
        UsageError: There is no kind of a given name, or `asked` is None and there are several kinds.
    """
    if not kinds:
        raise A3GNNError(f"the cluster has no machine for trials; start Ray on one by {START}, see docs/howto/ray.md")
    if asked is None and len(kinds) > 1:
        one = option("machines", next(iter(kinds)))
        raise UsageError(f"the cluster has machines of {len(kinds)} kinds, {', '.join(kinds)}; name one, such as {one}")
    if asked is None or asked == ALL:
        return list(kinds.values())
    names = dict.fromkeys(name.strip() for name in asked.split(","))
    for name in names:
        if name not in kinds:
            raise unknown_name(option("machines"), name, kinds)
    return [kinds[name] for name in names]


def only_kind(kinds: Mapping[str, MachineKind], asked: str | None) -> MachineKind:
    """Returns the kind named in `asked`; raises as `asked_kinds`, and a `UsageError` if it names several."""
    chosen = asked_kinds(kinds, asked)
    if len(chosen) > 1:
        names = ", ".join(kind.name for kind in chosen)
        raise UsageError(f"{option('machines')} must name one kind of machines here, got {names}")
    return chosen[0]


def _resource(fingerprint: str, label: str) -> str:
    return f"a3gnn-{fingerprint}-{label}" if label else f"a3gnn-{fingerprint}"


def _names(kind: MachineKind) -> str:
    return ", ".join(machine.name for machine in kind.machines)
