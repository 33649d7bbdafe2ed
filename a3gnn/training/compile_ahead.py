"""`compile_ahead`: compiles kernels before any measurement, and in a separate process.

Numba compiles a kernel at its first call on a machine. This takes tenths of a second to some seconds, and leaves 50 to
150 MB behind in that process. Afterwards every process loads the kernel from numba's cache.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Self

from numba.core.registry import cpu_target

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.knobs import ALL
from a3gnn.notify import detail
from a3gnn.process.child import as_program, described_status
from a3gnn.process.machine_turn import machine_turn
from a3gnn.storage.compiled import KERNELS
from a3gnn.task import Task
from a3gnn.units import count, format_duration
from a3gnn.version import __version__

#: Modules that torch imports with a process's first optimizer: a second, and 70 MiB.
_WITH_THE_FIRST = ("torch._dynamo",)
#: Layers that need all kernels; more layers need no further ones: the input layer, one in the middle, the last.
_LAYERS = 3
#: Timeout of compiling in seconds. Some five times the duration on two slow cores.
_MOST_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class KernelSet:
    """The kernels of a kind of work, identified by everything that determines them, so not by sizes, rates or seeds."""

    task: Task | None = None  # the trained task; None for the kernels that read and describe a graph
    sparse: bool = False  # whether features are CSR
    halves: bool = False  # whether features are stored as float16
    config: TrainConfig | None = None  # the configuration; None for all that a tune may try

    @classmethod
    def of(cls, graph: Graph, task: Task, config: TrainConfig | None = None) -> Self:
        """Returns the kernels to train `task` on a `graph` on disk with `config`, or with all that a tune may try."""
        features = graph.characteristics()
        if task.is_own:  # the sampler's and the store's kernels are among those of these models
            tabled = task.aggregates is not None and (config is None or config.input_aggregation == "full")
            values = int(bool(task.edge_values) and not tabled)
            task = Task(model=task.table_model if tabled else "gat", fanouts=task.fanouts, edge_dim=values)
        return cls(
            _small_task(task),
            features.sparse_features,
            features.value_bytes == 2,
            None if config is None else _small_config(config),
        )

    @property
    def of_a_tune(self) -> Self:
        """The kernels of all that a tune may try, which include these."""
        return type(self)(self.task, self.sparse, self.halves)

    def describe(self) -> str:
        """Returns a description of the kernels' work for messages."""
        if self.task is None:
            return "reading graphs"
        features = f"{'float16 ' * self.halves}{'sparse' if self.sparse else 'dense'} features"
        model = "gat, or a model of your own," if self.task.model == "gat" else self.task.model
        work = f"{model} on {features} ({', '.join(_layers(self.task))})"
        if self.config is None:
            return f"tuning {work}"
        return f"training {work}{_knobs(self.config)}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return {
            "task": None if self.task is None else self.task.to_dict(),
            "sparse": self.sparse,
            "halves": self.halves,
            "config": None if self.config is None else self.config.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the set of `to_dict`."""
        task, config = fields["task"], fields["config"]
        return cls(
            None if task is None else Task.from_dict(task),
            fields["sparse"],
            fields["halves"],
            None if config is None else TrainConfig.from_dict(config),
        )


def compile_ahead(wanted: KernelSet, notify: Callable[[str], None]) -> float:
    """Has numba compile `wanted` unless this machine has done so already, and returns the seconds that this took.

    For compiled kernels this takes milliseconds: a note lies beside the kernels in numba's cache, so that emptying the
    cache removes both. A failure is noted too, and kernels are then compiled at their first call. Trials of other
    processes on this machine wait meanwhile. This also waits for theirs, which counts in the seconds.

    Args:
        wanted: The kernels.
        notify: Called with messages.
    """
    if is_compiled(wanted):
        return 0.0
    called = perf_counter()
    with machine_turn(notify):
        begin = perf_counter()
        notify(f"compiling kernels for {wanted.describe()} (once on this machine, up to a minute)")
        failure = _compile(wanted)
    end = perf_counter()
    if failure:
        notify(f"kernels could not be compiled ahead, so each one compiles at its first call: {failure}")
    else:
        notify(detail(f"kernels compiled in {format_duration(end - begin)}"))
    return end - called


def is_compiled(wanted: KernelSet) -> bool:
    """Returns whether this machine has compiled `wanted`, or a set that includes it, from the present sources."""
    return _note(wanted).exists() or _note(wanted.of_a_tune).exists()


def _compile(wanted: KernelSet) -> str:
    """Compiles `wanted` and returns the error, or "". An attempt that started is noted, and not repeated."""
    program = as_program("a3gnn.training.compile_kernels")
    try:
        ended = subprocess.run(
            program.command,
            input=json.dumps(wanted.to_dict()),
            env=program.environment | {"OMP_NUM_THREADS": "1"},  # threads don't pay for hundreds of nodes
            capture_output=True,
            text=True,
            timeout=_MOST_SECONDS,
            start_new_session=True,  # Ctrl-C reaches only this process, which ends the other
            check=False,
        )
        _note(wanted).touch()
    except subprocess.TimeoutExpired as error:
        _note(wanted).touch()
        return str(error)
    except OSError as error:
        return str(error)
    if ended.returncode == 0:
        return ""
    lines = ended.stderr.strip().splitlines()
    return lines[-1] if lines else f"its process ended with {described_status(ended.returncode)}"


def _note(wanted: KernelSet) -> Path:
    """Returns the file that marks `wanted` as compiled for this processor; it lies beside the kernels."""
    processor = cpu_target.target_context.codegen().magic_tuple()
    text = json.dumps([wanted.to_dict(), __version__, *processor])
    return KERNELS / f"{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}.compiled"


def _layers(task: Task) -> Iterator[str]:
    """Yields the properties that determine the layers' kernels."""
    yield count(task.num_layers, "layer") + (" or more" if task.num_layers == _LAYERS else "")
    if task.norm != "none":
        yield f"{task.norm} norm"
    if task.residual:
        yield "linear residual connections" if task.residual == "linear" else "residual connections"
    if not task.dropout:
        yield "no dropout"
    if task.edge_dim:
        yield str(task.edge_value)


def _knobs(config: TrainConfig) -> str:
    """Returns the knobs that change the kernels from the default's; a size appears only by its name."""
    usual, own = _small_config(TrainConfig()).to_dict(), config.to_dict()
    other = [
        f"{name}={value}" if isinstance(value, str) else name for name, value in own.items() if value != usual[name]
    ]
    return f" with {', '.join(other)}" if other else ""


def _small_task(task: Task) -> Task:
    """Returns the smallest task that needs the kernels of `task`."""
    return Task(
        model=task.model,
        hidden_channels=8,
        fanouts=(3,) * min(task.num_layers, _LAYERS),
        dropout=0.5 if task.dropout else 0.0,
        heads=2,
        norm=task.norm,
        residual=task.residual,
        edge_dim=min(task.edge_dim, 1),  # the number of columns changes no kernel
    )


def _small_config(config: TrainConfig) -> TrainConfig:
    """Returns the smallest configuration that needs the kernels of `config`.

    Modes, workers and resources determine which thread runs a kernel, never which kernel. Values of a search are the
    task's.
    """
    return config.replace(
        batch_size=ALL if config.batch_size == ALL else 32,
        num_partitions=min(config.num_partitions, 2),
        bias_rate=min(config.bias_rate, 2.0),
        num_workers=1,
        cache_bytes=min(config.cache_bytes, 4096),
        parallel_mode="sequential",
        resources="free",
        seed_fanout=None,
        deep_fanout=None,
        learning_rate_scale=1.0,
        searched=(),
    ).canonical()


def optimizer_imports(task: Task, has_device: bool) -> tuple[str, ...]:
    """Returns the modules that training imports with its optimizer; none if it uses `a3gnn.models.adam`.

    Args:
        task: A user's model may bring its own optimizer.
        has_device: Whether the model is on a device, which needs torch's Adam.
    """
    return _WITH_THE_FIRST if task.is_own or has_device else ()
