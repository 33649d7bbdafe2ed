"""`ExecutorChoice`: the options for where trials run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from a3gnn._fields import Stored
from a3gnn.errors import UsageError, unknown_name
from a3gnn.option_names import option
from a3gnn.profiling.cluster.connection import ALL

if TYPE_CHECKING:
    from a3gnn.profiling.executor import MachineExecutor, TrialExecutor

LOCAL, RAY = "local", "ray"
EXECUTORS = (LOCAL, RAY)


@dataclass(frozen=True, slots=True)
class ExecutorChoice(Stored):
    """The options of commands that run trials; see `docs/howto/ray.md`.

    Raises:
        UsageError: There is no such executor, or it does not take one of the options.
    """

    executor: str = LOCAL  # local for processes of this machine, ray for machines of a Ray cluster
    ray_address: str | None = None  # HOST:PORT of the cluster's head; None for the cluster of this machine
    machines: str | None = None  # names of kinds of machines; None if the cluster has only one

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            raise unknown_name(option("executor"), self.executor, EXECUTORS)
        for name in ("ray_address", "machines"):
            value = getattr(self, name)
            if self.executor == LOCAL and value is not None:
                raise UsageError(
                    f"{option(name, value)} has no effect for trials on this machine; add {option('executor', RAY)}"
                )

    @property
    def names_several(self) -> bool:
        """Whether it requests a tune on each of several kinds of machines."""
        return self.machines is not None and (self.machines == ALL or "," in self.machines)

    @contextmanager
    def opened(self, notify: Callable[[str], None]) -> Iterator[MachineExecutor | None]:
        """Yields the executor; None for processes of this machine, which the caller starts.

        Raises:
            A3GNNError: There is no cluster, or no such machine in it.
            MissingDependencyError: Ray is not installed.
        """
        if self.executor == LOCAL:
            yield None
            return
        from a3gnn.profiling.cluster.executor import RayExecutor

        with RayExecutor(self.ray_address, self.machines, notify) as executor:
            yield executor

    def kinds(self) -> list[str]:
        """Returns the names of the requested kinds of machines.

        Raises:
            A3GNNError: There is no cluster, or no machine in it.
            UsageError: There is no such kind.
        """
        from a3gnn.profiling.cluster.connection import Connection, asked_kinds

        with closing(Connection(self.ray_address)) as cluster:
            return [kind.name for kind in asked_kinds(cluster.kinds(), self.machines)]


@contextmanager
def opened_executor(
    executor: TrialExecutor | str | None, notify: Callable[[str], None]
) -> Iterator[TrialExecutor | None]:
    """Yields `executor`, opened if it is one of `EXECUTORS`; None for processes of this machine.

    Raises:
        UsageError: It is neither such a name nor an object that runs trials.
        A3GNNError: As in `ExecutorChoice.opened`.
    """
    if isinstance(executor, str):
        with ExecutorChoice(executor).opened(notify) as opened:
            yield opened
        return
    methods = [getattr(executor, name, None) for name in ("run", "close")]
    if executor is not None and (isinstance(executor, type) or not all(map(callable, methods))):
        raise UsageError(
            f"executor must be {' or '.join(map(repr, EXECUTORS))}, or an object with the methods run and close, got "
            f"{executor!r}"
        )
    yield executor
