"""Search values of knobs that depend on the task, the graph and the machine."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.knobs import NEVER, IdleAt, SearchValues, Values, where
from a3gnn.setting import Setting
from a3gnn.task import EMBEDDING, Task

#: Shares of the feature rows that the cache may hold, besides 0: each about twice the one before.
CACHE_SHARES: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8)
#: A table of sparse rows is refused if it takes more than this multiple of the features' bytes. Guess.
MOST_TABLE_GROWTH = 4
#: The default batch size, which every space holds.
_DEFAULT_BATCH_SIZE = 1024
#: Stages that can each have cores of their own: with fewer cores there is nothing to isolate.
_ISOLATED_STAGES = 3
#: Speedup of bfloat16 products over float32 from which a search tries them. Products are a half to two thirds of a
#: step, so a smaller speedup would save under a tenth or so.
_LEAST_BFLOAT16_GAIN = 1.3
#: Ordering seeds by proximity traverses every edge before each trial. Above this many edges, which take seconds, a
#: search tries it only if it is fixed (`--fix seed_order=proximity`). Guess.
_MAX_ORDERED_EDGES = 100_000_000


def only_where(condition: Callable[[Setting], bool], otherwise: Values) -> SearchValues:
    """Returns the rule that tries all values if `condition` holds, and `otherwise` if not."""
    return lambda values, setting: values if condition(setting) else otherwise


def below_train_seeds(values: Values, setting: Setting) -> Values:
    """Returns the batch sizes below the number of train seeds, and the first that holds all of them.

    Batch sizes that hold every train seed run identically. The default stands for all of them if it is one, so that it
    lies in the space.
    """
    seeds = setting.graph.num_train
    whole = (size for size in values if size >= max(seeds, _DEFAULT_BATCH_SIZE))
    return (*(size for size in values if size < seeds), *list(whole)[:1])


def below_the_seeds_fanout(values: Values, setting: Setting) -> Values:
    """Returns None, for the task's fanout of the seeds' hop, and the fanouts below it."""
    return _below(values, setting.task.fanouts[: samples(setting)])


def below_the_deep_fanouts(values: Values, setting: Setting) -> Values:
    """Returns None, for the task's fanouts of the further hops, and those below the largest of them."""
    return _below(values, setting.task.fanouts[1:] if samples(setting) else ())


def _below(values: Values, fanouts: tuple[int, ...]) -> Values:
    """Returns None, and the values below the largest of `fanouts`; -1, all neighbors, is above every value."""
    largest = math.inf if -1 in fanouts else max(fanouts, default=0)
    return (None, *(value for value in values if value is not None and value < largest))


def up_to_the_cores(values: Values, setting: Setting) -> Values:
    """Returns up to four numbers of workers, from 1 to the number of cores, or to 4 on fewer cores."""
    return tuple(int(n) for n in np.geomspace(1, max(4, setting.hardware.num_cores), 4).round())


def shares_of_the_rows(values: Values, setting: Setting) -> Values:
    """Returns 0, and the bytes of a cache with its index for each of `CACHE_SHARES` of the feature rows, if any."""
    graph = setting.graph
    if not graph.row_bytes:
        return (0,)
    rows, index = graph.row_bytes * graph.num_nodes, CACHE_INDEX_BYTES * graph.num_nodes
    return (0, *(int(share * rows + index) for share in CACHE_SHARES))


def has_a_small_table(setting: Setting) -> bool:
    """Returns whether the model's input layer can read a table that is surely not refused as too large.

    A dense table of more than half of the machine's memory is tried only if it is fixed: it takes minutes to make, and
    its rows would come from the disk.
    """
    graph, task = setting.graph, setting.task
    if not reads_a_table(task):
        return False
    if task.own is not None and task.own.takes == "edge_index" and setting.hardware.has_device:
        return False  # accelerated layers, which read it, don't run on GPUs
    most = MOST_TABLE_GROWTH * graph.feature_bytes if graph.sparse_features else setting.hardware.host_memory_bytes // 2
    return graph.table_bytes(task.table_model) <= most


def reads_a_table(task: Task) -> bool:
    """Returns whether a task's input layer can aggregate in full: a user's if it declares so, attention never.

    A model of the user's own that was not built yet counts as one that does.
    """
    return task.aggregates is not None or (task.is_own and task.own is None)


def idle_as_the_last_of(hops: int) -> IdleAt:
    """Returns the rule that a fanout is idle in tasks with `hops` hops if the input layer aggregates in full.

    The last hop is not sampled then, and in such tasks no other hop has this fanout.
    """
    return lambda setting: where(input_aggregation="full") if setting.task.num_layers == hops else NEVER


def with_the_processors(values: Values, setting: Setting) -> Values:
    """Returns 1, and with accelerators also one trainer for each of them and one on the processors.

    On processors alone, several trainers are slower than one with all threads (docs/research/hybrid.md). A user's model
    can't be shared by trainers.
    """
    devices = setting.hardware.num_devices
    return (1, devices + 1) if devices and not setting.task.is_own else (1,)


def samples(setting: Setting) -> bool:
    """Returns whether training samples neighbors: all models do, but an embedding alone reads none."""
    return setting.task.model != EMBEDDING


def samples_on_a_device(setting: Setting) -> bool:
    """Returns whether there is a GPU, and mini-batches need no values of edges, whose places it does not return."""
    return setting.hardware.has_device and not setting.task.edge_values and samples(setting)


def has_no_types(setting: Setting) -> bool:
    """Returns whether the graph has no node types; with types, seeds have no order by proximity and no parts."""
    return not setting.graph.relations


def has_device(setting: Setting) -> bool:
    """Returns whether there is an accelerator."""
    return setting.hardware.has_device


def policies_of_the_rows(values: Values, setting: Setting) -> Values:
    """Returns the policies that can cache the rows: sparse ones no dynamic policy, those of several types degree."""
    graph = setting.graph
    kept = ("degree",) if graph.relations else ("degree", "access") if graph.sparse_features else values
    return tuple(value for value in values if value in kept)


def is_quickly_ordered(setting: Setting) -> bool:
    """Returns whether ordering the seeds by proximity takes seconds at most."""
    return setting.graph.num_edges <= _MAX_ORDERED_EDGES and has_no_types(setting)


def has_cores_to_isolate(setting: Setting) -> bool:
    """Returns whether each stage can have cores of its own."""
    return setting.hardware.num_cores >= _ISOLATED_STAGES


def gains_by_bfloat16(setting: Setting) -> bool:
    """Returns whether the model can multiply dense rows in bfloat16, and the machine does so much faster.

    An embedding alone has no products.
    """
    found = setting.hardware.profile
    speeds = found.gemm_flops_per_s, found.bf16_gemm_flops_per_s
    if setting.hardware.has_device:
        speeds = found.device_gemm_flops_per_s, found.device_bf16_gemm_flops_per_s
    gains = not setting.graph.sparse_features and speeds[1] >= _LEAST_BFLOAT16_GAIN * speeds[0]
    own = setting.task.own
    multiplies = own is None or own.takes == "edge_index" or setting.hardware.has_device
    return gains and multiplies and samples(setting)  # on the CPU, torch has no bfloat16 products of CSR adjacencies


def has_rows_to_halve(setting: Setting) -> bool:
    """Returns whether the graph's features are float32."""
    return setting.graph.value_bytes > 2


def has_features(setting: Setting) -> bool:
    """Returns whether there are features, which some tier has to hold."""
    return setting.graph.feature_bytes > 0
