"""`check_arguments`: what PyG's NeighborLoader takes and `Loader` does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from a3gnn.errors import UsageError, unknown_name


class _Unsupported(NamedTuple):
    """An argument that would change what a mini-batch holds: the one value that is served, and the remedy."""

    only: Any
    remedy: str


_UNSUPPORTED = {
    "replace": _Unsupported(False, "a3gnn samples without replacement"),
    "directed": _Unsupported(True, "a3gnn gives the sampled edges alone"),
    "subgraph_type": _Unsupported("directional", "a3gnn gives the sampled edges alone"),
    "disjoint": _Unsupported(
        False, "the seeds of a mini-batch share their neighbourhoods; batch_size=1 separates them"
    ),
    "temporal_strategy": _Unsupported("uniform", "a3gnn knows no times; use PyG's NeighborLoader for temporal graphs"),
    "time_attr": _Unsupported(None, "a3gnn knows no times; use PyG's NeighborLoader for temporal graphs"),
    "input_time": _Unsupported(None, "a3gnn knows no times; use PyG's NeighborLoader for temporal graphs"),
    "weight_attr": _Unsupported(
        None, "all in-neighbours weigh the same, or cached ones TrainConfig.bias_rate times more"
    ),
    "transform_sampler_output": _Unsupported(None, "use transform, which takes the whole mini-batch"),
    "neighbor_sampler": _Unsupported(None, "a3gnn brings its own"),
    "input_id": _Unsupported(None, "batch.input_id is each seed's place in input_nodes; index your own ids with it"),
    "custom_cls": _Unsupported(None, "mini-batches are torch_geometric.data.Data; transform can make others of them"),
    "sampler": _Unsupported(None, "the order of seeds is shuffle's and seed's to decide"),
    "batch_sampler": _Unsupported(None, "the order of seeds is shuffle's and seed's to decide"),
    "generator": _Unsupported(None, "give seed, an integer, instead"),
    "worker_init_fn": _Unsupported(None, "workers are threads that need no start-up"),
    "multiprocessing_context": _Unsupported(None, "workers are threads, not processes"),
    "timeout": _Unsupported(0, "workers are threads, and their errors arrive at once"),
}
# How PyG is to keep its edges and its processes: a mini-batch holds the same with and without.
_HINTS = ("filter_per_worker", "is_sorted", "persistent_workers", "pin_memory", "prefetch_factor")


def check_arguments(arguments: Mapping[str, Any], taken: Iterable[str] = ()) -> None:
    """Checks that `arguments` of NeighborLoader ask for nothing that `Loader` does not do.

    Args:
        arguments: Those that `Loader` has no parameter for.
        taken: Names of its parameters, one of which may have been meant.

    Raises:
        UsageError: One does, or is unknown.
    """
    for name, value in arguments.items():
        if name in _HINTS:
            continue
        if name not in _UNSUPPORTED:
            raise unknown_name("an argument of Loader", name, (*taken, *_UNSUPPORTED, *_HINTS))
        only, remedy = _UNSUPPORTED[name]
        asked = getattr(value, "value", value)  # of PyG's SubgraphType
        if asked is not only and (type(asked) is not type(only) or asked != only):
            raise UsageError(f"{name} must be {only!r} or left out, got {value!r}: {remedy}")
