"""`Connection`: this process as a driver of a Ray cluster."""

from __future__ import annotations

import importlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from a3gnn._imports import optional
from a3gnn.errors import A3GNNError, UsageError
from a3gnn.option_names import option
from a3gnn.profiling.cluster.kinds import START, MachineKind, machine_kinds

#: Bytes of one piece of a graph, which lies in Ray's object stores while it is sent. Guess.
PIECE_BYTES = 16 << 20
#: Ray's namespace of all studies' actors.
_NAMESPACE = "a3gnn"
#: Scheme of Ray's addresses for clients outside of the cluster.
_CLIENT = "ray://"


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
                f"{option('ray_address')} must be HOST:PORT of the cluster's head, got {address}: a study runs on a "
                "machine of the cluster, from which the others fetch its graph"
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
                f"no Ray cluster can be used {where}: {str(error).strip()}; docs/howto/ray.md says how to start one: "
                f"first ray start --head, then on each machine for trials {START}; "
                f"{option('ray_address')} takes HOST:PORT"
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
