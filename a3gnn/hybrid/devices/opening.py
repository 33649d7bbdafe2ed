"""`open_devices`: opens devices by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import torch

from a3gnn.errors import UsageError, nearest
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.devices.device import Device
from a3gnn.option_names import option
from a3gnn.task import Task
from a3gnn.threads import pool

#: The class of each kind, by its name. `open(name, argument, graph, task)` opens a device; `argument` follows the
#: colon. It raises a ValueError that describes a valid argument.
KINDS = {
    "cpu": "a3gnn.hybrid.devices.processor:ProcessorDevice",
    "cuda": "a3gnn.hybrid.devices.cuda:CudaDevice",
    "sim": "a3gnn.hybrid.devices.simulated:SimulatedDevice",
}
AUTO = "auto"


def open_devices(names: Sequence[str], graph: Graph, task: Task) -> list[Device]:
    """Opens the devices with these names.

    Args:
        names: Such as cpu:2, cuda:0 and sim:u250; auto alone is each GPU, and the processors.
        graph: The graph.
        task: The task.

    Raises:
        UsageError: A name is not valid.
        DeviceError: A device does not exist.
    """
    if list(names) == [AUTO]:
        names = device_names(_gpus() + 1).split(",")
    if not names:
        raise UsageError(f"{option('trainers')} must name at least one; {AUTO} takes all devices of this machine")
    _check_gpus(names)
    return [_opened(name, graph, task) for name in names]


def device_names(trainers: int) -> str:
    """Returns device names for `trainers` trainers on this machine: as many GPUs as it has, processors for the rest.

    Processor trainers share the usable cores equally, except one core per GPU, which launches its kernels. Each gets at
    least one thread.
    """
    gpus = min(trainers, _gpus())
    threads = max(1, (pool.usable_cores() - gpus) // max(1, trainers - gpus))
    return ",".join([f"cpu:{threads}"] * (trainers - gpus) + [f"cuda:{gpu}" for gpu in range(gpus)])


def _gpus() -> int:
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _check_gpus(names: Sequence[str]) -> None:
    """Checks that each GPU has one trainer.

    Raises:
        UsageError: A GPU has two trainers. Autograd has one thread per GPU, so they would deadlock: in the sums of
            batch statistics, the first trainer would wait on that thread for the second one, which needs the same
            thread.
    """
    parts = (name.partition(":") for name in names)
    gpus = [int(number) for kind, _, number in parts if kind == "cuda" and number.isdecimal()]
    for gpu in gpus:
        if gpus.count(gpu) > 1:
            raise UsageError(
                f"{option('trainers')} must name each GPU once, got cuda:{gpu} {gpus.count(gpu)} times; name it once, "
                "and give it the seeds of all"
            )


def _opened(name: str, graph: Graph, task: Task) -> Device:
    kind, _, argument = name.partition(":")
    if kind not in KINDS:
        raise UsageError(
            f"{option('trainers')} must be {AUTO}, or one of {', '.join(KINDS)} with a colon and an argument, got "
            f"{name!r}{nearest(kind, KINDS)}"
        )
    module, _, made = KINDS[kind].partition(":")
    try:
        device: Device = getattr(import_module(module), made).open(name, argument, graph, task)
    except ValueError as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{option('trainers')} must be {error}, got {name!r}") from error
    return device
