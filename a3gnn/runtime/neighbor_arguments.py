"""`check_arguments`: what PyG's NeighborLoader takes and `Loader` does not."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from a3gnn.errors import UsageError, unknown_name


class _Unsupported(NamedTuple):
    """An argument that would change what a mini-batch holds: the one value that is served, and the remedy."""

    only: Any
    remedy: str


_NO_TIMES = "a3gnn knows no times; use PyG's NeighborLoader for temporal graphs"
_UNSUPPORTED = {
    "input_time": _Unsupported(None, _NO_TIMES),
    "temporal_strategy": _Unsupported("uniform", _NO_TIMES),
    "time_attr": _Unsupported(None, _NO_TIMES),
    "transform_sampler_output": _Unsupported(None, "use transform, which takes the whole mini-batch"),
    "neighbor_sampler": _Unsupported(None, "a3gnn brings its own; use PyG's NeighborLoader for another"),
    "generator": _Unsupported(None, "give seed, an integer, instead"),
    "worker_init_fn": _Unsupported(None, "workers are threads that need no start-up"),
    "multiprocessing_context": _Unsupported(None, "workers are threads, not processes"),
    "timeout": _Unsupported(0, "workers are threads, and their errors arrive at once"),
    "in_order": _Unsupported(True, "mini-batches come in their order with any number of workers"),
}
# How PyG is to keep its edges and its processes: a mini-batch holds the same with and without. As in PyG, a dataset
# and a collate_fn are the loader's own, whatever is given.
_HINTS = (
    "collate_fn",
    "dataset",
    "filter_per_worker",
    "is_sorted",
    "persistent_workers",
    "pin_memory",
    "pin_memory_device",
    "prefetch_factor",
)


def check_arguments(arguments: Mapping[str, Any], loader: type) -> None:
    """Checks that `arguments` of NeighborLoader ask for nothing that `Loader` does not do.

    Args:
        arguments: Those that `Loader` has no use for.
        loader: It, one of whose parameters may have been meant.

    Raises:
        UsageError: One does, or is unknown.
    """
    for name, value in arguments.items():
        if name in _HINTS:
            continue
        if name not in _UNSUPPORTED:
            taken = set(inspect.signature(loader).parameters) - {"others"}
            raise unknown_name("an argument of Loader", name, (*taken, *_UNSUPPORTED, *_HINTS))
        only, remedy = _UNSUPPORTED[name]
        if value is not only and (type(value) is not type(only) or value != only):
            raise UsageError(f"{name} must be {only!r} or left out, got {value!r}: {remedy}")
