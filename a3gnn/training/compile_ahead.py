"""`compile_ahead`: kernels are compiled before anything is measured, and in a process that nothing is measured in.

Numba compiles a kernel at its first call on a machine, for tenths of a second to some seconds, and leaves 50 to 150 MB
behind in that process. From then on every process loads it from numba's cache.
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
from a3gnn.process.child import as_program
from a3gnn.process.machine_turn import machine_turn
from a3gnn.process.memory import described_status
from a3gnn.storage.compiled import KERNELS
from a3gnn.task import Task
from a3gnn.units import count, format_duration
from a3gnn.version import __version__

#: Layers from which on another one needs no further kernel: the input layer, one between, the last.
_LAYERS = 3


@dataclass(frozen=True, slots=True)
class KernelSet:
    """The kernels of a kind of work, named by all that decides them; sizes, rates and seeds do not.

    Attributes:
        task: What is trained; None for the kernels that read and describe a graph.
        sparse: Whether its features are CSR.
        halves: Whether they are stored as float16.
        config: How it is trained; None for whatever a tune may try.
    """

    task: Task | None = None
    sparse: bool = False
    halves: bool = False
    config: TrainConfig | None = None

    @classmethod
    def of(cls, graph: Graph, task: Task, config: TrainConfig | None = None) -> Self:
        """Returns the kernels that train `task` on a `graph` on disk with `config`, or with all that a tune may try."""
        features = graph.characteristics()
        if task.is_own:  # whose layers have no kernels: the sampler's and the store's are among those of GAT
            full = config is not None and config.input_aggregation == "full"
            task = Task(model="sage" if full else "gat", fanouts=task.fanouts)
        return cls(
            _small_task(task),
            features.sparse_features,
            features.value_bytes == 2,
            None if config is None else _small_config(config),
        )

    @property
    def of_a_tune(self) -> Self:
        """The kernels of whatever a tune may try, which hold these."""
        return type(self)(self.task, self.sparse, self.halves)

    def describe(self) -> str:
        """Returns what the kernels are for, for people."""
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


def _layers(task: Task) -> Iterator[str]:
    """Yields what decides the kernels of the layers."""
    yield count(task.num_layers, "layer") + (" or more" if task.num_layers == _LAYERS else "")
    if task.norm != "none":
        yield f"{task.norm} norm"
    if task.residual:
        yield "residual connections"
    if not task.dropout:
        yield "no dropout"


def _knobs(config: TrainConfig) -> str:
    """Returns the knobs by which the kernels differ from the default's; of a size, only that it is not the default."""
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
    )


def _small_config(config: TrainConfig) -> TrainConfig:
    """Returns the smallest configuration that needs the kernels of `config`.

    Modes, workers and resources decide which thread runs a kernel, never which kernel.
    """
    return config.replace(
        batch_size=32,
        num_partitions=min(config.num_partitions, 2),
        bias_rate=min(config.bias_rate, 2.0),
        num_workers=1,
        cache_bytes=min(config.cache_bytes, 4096),
        parallel_mode="sequential",
        resources="free",
        seed_fanout=None,
        deep_fanout=None,
        learning_rate_scale=1.0,
    ).canonical()


#: Seconds after which compiling is given up. Guess: some five times what it takes on two slow cores.
_MOST_SECONDS = 300.0


def compile_ahead(wanted: KernelSet, notify: Callable[[str], None]) -> float:
    """Has numba compile `wanted` where this machine has not done so, and returns the seconds that this took.

    Where it was done the answer takes milliseconds: a note lies beside the kernels in numba's cache, so that whoever
    empties that empties both. Where it fails, that is noted too, and kernels are compiled at their first call.
    Trials of other processes on this machine wait meanwhile, and it waits for theirs, which counts in the seconds.

    Args:
        wanted: The kernels.
        notify: Takes each line for people.
    """
    if is_compiled(wanted):
        return 0.0
    called = perf_counter()
    with machine_turn(notify):
        begin = perf_counter()
        notify(f"compiling kernels, once on this machine, for {wanted.describe()}")
        failure = _compile(wanted)
    end = perf_counter()
    if failure:
        notify(f"kernels could not be compiled ahead, so each is compiled at its first call: {failure}")
    else:
        notify(f"kernels compiled in {format_duration(end - begin)}")
    return end - called


def is_compiled(wanted: KernelSet) -> bool:
    """Returns whether this machine has compiled `wanted`, or what holds it, from the present sources."""
    return _note(wanted).exists() or _note(wanted.of_a_tune).exists()


def _compile(wanted: KernelSet) -> str:
    """Returns why `wanted` could not be compiled, "" where it was; a try that began is noted, and not made again."""
    program = as_program("a3gnn.training.compile_kernels")
    try:
        ended = subprocess.run(
            program.command,
            input=json.dumps(wanted.to_dict()),
            env=program.environment | {"OMP_NUM_THREADS": "1"},  # hundreds of nodes gain nothing from threads
            capture_output=True,
            text=True,
            timeout=_MOST_SECONDS,
            start_new_session=True,  # an interrupt from the keyboard is for this process alone, which ends that one
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
    """Returns the file that is there once `wanted` is compiled for this processor: it lies beside the kernels."""
    processor = cpu_target.target_context.codegen().magic_tuple()
    text = json.dumps([wanted.to_dict(), __version__, *processor])
    return KERNELS / f"{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}.compiled"
