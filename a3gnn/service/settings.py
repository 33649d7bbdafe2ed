"""`ServiceSettings`: the options of `a3gnn serve`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3gnn.addresses import check_address
from a3gnn.checks import whole_number
from a3gnn.errors import UsageError
from a3gnn.option_names import option
from a3gnn.profiling.executor_choice import ExecutorChoice
from a3gnn.units import format_duration, format_size

if TYPE_CHECKING:
    from a3gnn.tuning.study.study import TuneRequest

#: The least value of each number, and the advice in the error for a smaller one.
_LEAST = {
    "port": (0, "0 takes a free port"),
    "max_upload_bytes": (1, "2 GiB is the default"),
    "max_uploads_bytes": (1, "20 GiB is the default"),
    "max_nodes": (1, "50,000,000 is the default"),
    "max_edges": (1, "2,000,000,000 is the default"),
    "max_trials": (1, "10,000 is the default"),
    "max_epochs": (1, "10,000 is the default"),
    "max_hidden": (1, "4,096 is the default"),
    "max_queued": (1, "100 is the default"),
    "at_once": (0, "0 runs no jobs"),
}
MOST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Limits and places of a server.

    Attributes:
        folder: Holds the studies, the graphs and, by default, the database.
        data_root: Graphs below this folder may be registered; None allows only uploads and synthetic graphs.
        host: The address to listen at.
        port: The port; 0 for a free one.
        token: Requests must carry this token. None, for no token, is allowed on loopback only.
        allowed_hosts: Names beside `host` by which the server may be addressed.
        allowed_models: The user's models, package.module:function, that may be trained. Importing one runs its code.
        database: A path or an SQLAlchemy URL, for studies and measurements; `folder`/service.sqlite by default.
        max_upload_bytes: Most bytes of an upload, and of its unpacked arrays.
        max_uploads_bytes: Most bytes of all uploaded graphs together.
        max_nodes: Most nodes of a graph.
        max_edges: Most directed edges of a graph.
        max_budget_s: Largest budget of a study, in seconds.
        max_trials: Largest budget of a study, in trials.
        max_epochs: Most epochs that a request may name.
        max_hidden: Largest width of a model.
        max_memory_bytes: Host memory limit of studies without one, and the largest one; None sets no limit.
        max_queued: Most jobs that may wait.
        lease_s: Seconds without a client after which a study whose trials the client runs makes room for another one.
        at_once: Most jobs that run at once; their trials take turns.
        access_log: Whether stderr gets a line per request.
        trials: Where the trials of studies run.

    Raises:
        UsageError: A number is out of range, an address that other machines reach has no token, the token is too short,
            the data root is no folder, or trials are to run on several kinds of machines.
    """

    folder: Path
    data_root: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8642
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_models: tuple[str, ...] = ()
    database: str | None = None
    max_upload_bytes: int = 2 << 30
    max_uploads_bytes: int = 20 << 30
    max_nodes: int = 50_000_000
    max_edges: int = 2_000_000_000
    max_budget_s: float = 7 * 86_400.0
    max_trials: int = 10_000
    max_epochs: int = 10_000
    max_hidden: int = 4096
    max_memory_bytes: int | None = None
    max_queued: int = 100
    lease_s: float = 3600.0
    at_once: int = 1
    access_log: bool = False
    trials: ExecutorChoice = field(default_factory=ExecutorChoice)

    def __post_init__(self) -> None:
        for name, (least, remedy) in _LEAST.items():
            whole_number(option(name), getattr(self, name), least, remedy)
        if self.port > MOST_PORT:
            raise UsageError(f"{option('port')} must be at most {MOST_PORT}, got {self.port}; 0 takes a free port")
        check_address(self.host, self.token, "A3GNN_TOKEN")
        if self.trials.names_several:
            raise UsageError(
                f"{option('machines', self.trials.machines)} must name one kind of machines, because a study of the "
                "service has one front; a3gnn tune accepts several kinds"
            )
        if self.data_root is not None and not self.data_root.is_dir():
            raise UsageError(f"--data-root must be an existing folder, got {self.data_root}")

    def check(self, request: TuneRequest) -> None:
        """Raises a `UsageError` if a study or a recommendation asks for more than the server's limits."""
        if isinstance(request.budget, int):
            _refuse_above("budget", request.budget, self.max_trials, "trials")
        else:
            _refuse_above("budget", request.budget, self.max_budget_s, "budget", format_duration)
        _refuse_above("hidden", request.task.hidden_channels, self.max_hidden, "hidden")
        if self.max_memory_bytes is not None:
            limit = request.host_memory_limit or 0
            _refuse_above("host_memory_limit", limit, self.max_memory_bytes, "memory", format_size)
        self.check_epochs(accuracy_epochs=request.accuracy_epochs, lr_epochs=request.task.lr_epochs)

    def check_epochs(self, **epochs: int | None) -> None:
        """Raises a `UsageError` if a field of a request, given by name, has more epochs than the server's limit."""
        for name, found in epochs.items():
            _refuse_above(name, found or 0, self.max_epochs, "epochs")

    @property
    def has_token(self) -> bool:
        """Whether requests need a token, and people log in."""
        return self.token is not None

    @property
    def place(self) -> str:
        """The database of studies and measurements: a path or an SQLAlchemy URL."""
        return self.database or str(self.folder / "service.sqlite")


def _refuse_above(name: str, found: float, most: float, limit: str, text: Callable[[Any], str] = "{:,}".format) -> None:
    if found > most:
        raise UsageError(
            f"{name} must be at most {text(most)} here, got {text(found)}; a3gnn serve --max-{limit} sets the limit"
        )
