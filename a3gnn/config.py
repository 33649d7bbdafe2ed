"""`TrainConfig`: the options of training that are tuned."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import a3gnn.search_values as at
from a3gnn._fields import SCHEMA_VERSION, check_names, check_version, hash_of
from a3gnn.checks import OneOf, Real, Size, Whole, WholeOrAll, WholeOrTask
from a3gnn.errors import ConfigError
from a3gnn.knobs import ALL, ALL_TEXT, ALWAYS, NEVER, Phrase, document, knob, knobs_of, where
from a3gnn.task import EMBEDDING, Task, Values, as_values

ParallelMode = Literal["sequential", "mode1", "mode2"]
DeviceName = Literal["cpu", "cuda"]
FeatureTier = Literal["ram", "disk"]
CachePolicy = Literal["degree", "access", "fifo", "clock", "ahead"]
SeedOrder = Literal["random", "proximity"]
Partitioner = Literal["metis", "random", "blocks"]
Resources = Literal["free", "auto"]
ComputeDtype = Literal["float32", "bfloat16"]
FeatureDtype = Literal["float32", "float16"]
InputAggregation = Literal["sampled", "full"]
Adapt = Literal["off", "on"]

PARALLEL_MODES: tuple[ParallelMode, ...] = get_args(ParallelMode)
DEVICES: tuple[DeviceName, ...] = get_args(DeviceName)
FEATURE_TIERS: tuple[FeatureTier, ...] = get_args(FeatureTier)
STATIC_POLICIES: tuple[CachePolicy, ...] = ("degree", "access")
DYNAMIC_POLICIES: tuple[CachePolicy, ...] = ("fifo", "clock")
#: Holds the rows of the next mini-batches, which are sampled ahead (`a3gnn.pipeline.hyperbatches`).
AHEAD: CachePolicy = "ahead"
CACHE_POLICIES: tuple[CachePolicy, ...] = get_args(CachePolicy)
#: Policies of older versions, and the nearest policy of today. CLOCK approximates LRU. The others kept the rows that
#: are read most often: presample and lfu by counts, auto by whichever policy a replay found best.
_OLD_POLICIES: dict[str, CachePolicy] = {"lru": "clock", "lfu": "access", "presample": "access", "auto": "access"}
SEED_ORDERS: tuple[SeedOrder, ...] = get_args(SeedOrder)
PARTITIONERS: tuple[Partitioner, ...] = get_args(Partitioner)
RESOURCES: tuple[Resources, ...] = get_args(Resources)
COMPUTE_DTYPES: tuple[ComputeDtype, ...] = get_args(ComputeDtype)
FEATURE_DTYPES: tuple[FeatureDtype, ...] = get_args(FeatureDtype)
INPUT_AGGREGATIONS: tuple[InputAggregation, ...] = get_args(InputAggregation)
ADAPT: tuple[Adapt, ...] = get_args(Adapt)
#: Holds if several trainers have a `prefetch_depth`, which then replaces `parallel_mode`.
_PREFETCHED = ~where(trainers=1, prefetch_depth=0)
#: Holds if the whole graph is one mini-batch, which is made once: how mini-batches are made is then idle.
_WHOLE = where(batch_size=ALL)

#: The knobs that decide what is learned, as pairs (`TrainConfig.learning_key`).
LearningKey = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """One point of the design space (A3GNN, Table I; BGL, section 3); the defaults are what a PyG user has untuned.

    The row of a field declares its knob; `a3gnn.knobs.Knob` says what each argument means. A knob is idle where it has
    no effect: sequential mode has no workers and no stages that compete; `bias_rate` needs a cache that is static; one
    part needs no partitioner. Modes, workers and tiers change when a mini-batch is ready and where its rows are read,
    never what is in it; nor do resources and trainers, but on threads and shares the last bits of sums depend.

    Raises:
        ConfigError: A value is out of range.
    """

    # fmt: off
    batch_size: int = knob(
        1024, WholeOrAll(1, "1,024 is the default"), later=False,
        help="Seeds per mini-batch; all takes the whole graph as one mini-batch, unsampled, once for all epochs.",
        search=(64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384), at=at.below_train_seeds, learns=ALWAYS,
        show=Phrase(0, "batch {}"))
    num_partitions: int = knob(
        1, Whole(1, "1 trains on the whole graph"), later=False,
        help="Parts that are trained one after the other; edges between parts are not seen, but by a full input "
        "aggregation.",
        search=(1, 2, 4, 8), at=at.only_where(at.has_no_types, otherwise=(1,)), idle=_WHOLE, learns=ALWAYS,
        show=Phrase(5, "partitions {}"))
    bias_rate: float = knob(
        1.0, Real(1, "1 samples uniformly"), later=False,
        help="Weight of a cached neighbor against an uncached one, >= 1; 1 samples uniformly.",
        search=(1.0, 2.0, 4.0, 8.0, 16.0), at=at.only_where(at.samples, otherwise=(1.0,)),
        idle=where(cache_bytes=0, cache_policy=(*DYNAMIC_POLICIES, AHEAD)) | _WHOLE, learns=ALWAYS,
        show=Phrase(4, "prefers cached neighbors x{:g}"))
    sampling_device: DeviceName = knob(
        "cpu", OneOf(DEVICES), "Where neighbors are sampled: cpu or cuda.", later=False,
        at=at.only_where(at.samples_on_a_device, otherwise=("cpu",)), idle=~where(trainers=1) | _WHOLE, learns=ALWAYS,
        show=Phrase(8, "sampling on {}"))
    num_workers: int = knob(
        1, Whole(1, "sequential mode ignores it"), "Worker threads of mode 1 and mode 2.", later=False,
        search=(1, 2, 3, 4), at=at.up_to_the_cores, idle=where(parallel_mode="sequential") | _PREFETCHED | _WHOLE,
        show=Phrase(1, "workers {}", ~where(parallel_mode="sequential")))
    cache_bytes: int = knob(
        0, Size(0, "0 turns the cache off"), later=False,
        help="Bytes for rows of the hottest nodes, in the fastest memory: the device's, or RAM without one.",
        search=(0,), at=at.shares_of_the_rows, scale="linear", idle=_WHOLE, learns=~where(bias_rate=1),
        show=Phrase(3, "cache {}"))
    parallel_mode: ParallelMode = knob(
        "sequential", OneOf(PARALLEL_MODES), later=False,
        help="sequential; mode1 (workers sample and gather); mode2 (workers only sample).",
        idle=_PREFETCHED | _WHOLE, show=Phrase(1, " ({})", names=("no workers", "sample + gather", "sample")))
    feature_tier: FeatureTier = knob(
        "ram", OneOf(FEATURE_TIERS), "Where uncached features are kept: ram or disk.", later=False,
        at=at.only_where(at.has_features, otherwise=("ram",)), idle=_WHOLE,
        show=Phrase(2, "features {}", names=("in RAM", "on disk")))
    cache_policy: CachePolicy = knob(
        "degree", OneOf(CACHE_POLICIES),
        help="Which rows the cache holds. Static, chosen before training: degree, access (expected by the sampler's "
        "distribution). Dynamic, replaced while training: fifo, clock. Only a static one can be sampled towards. "
        "ahead: rows on disk that the next mini-batches need, read once, in large blocks; if rows are in RAM, none.",
        search=("degree", "access", "fifo"), at=at.policies_of_the_rows,
        idle=where(cache_bytes=0) | _WHOLE, learns=~where(bias_rate=1), show=Phrase(3, " by {}"))
    seed_order: SeedOrder = knob(
        "random", OneOf(SEED_ORDERS),
        help="random, or proximity: seeds that are close in the graph come in the same or in nearby mini-batches.",
        at=at.only_where(at.is_quickly_ordered, otherwise=("random",)), idle=_WHOLE, learns=ALWAYS,
        show=Phrase(6, "{} batches", names=("random", "clustered")))
    partitioner: Partitioner = knob(
        "metis", OneOf(PARTITIONERS), "metis, random, or blocks (BGL's, for graphs that METIS can't hold).",
        search=("metis", "blocks"), idle=where(num_partitions=1) | _WHOLE, learns=ALWAYS, show=Phrase(5, " by {}"))
    resources: Resources = knob(
        "free", OneOf(RESOURCES),
        help="free (stages compete for the cores) or auto (each gets its share by a measured model).",
        at=at.only_where(at.has_cores_to_isolate, otherwise=("free",)),
        idle=where(parallel_mode="sequential") | ~where(trainers=1) | _WHOLE,
        learns=ALWAYS, show=Phrase(7, "isolated stages"))
    seed_fanout: int | None = knob(
        None, WholeOrTask(1, "None takes the task's"),
        help="In-neighbors sampled per seed; None: as many as the task says. Evaluation takes all.",
        search=(None, 25, 15, 10, 5, 3), at=at.below_the_seeds_fanout, learns=ALWAYS, show=Phrase(9, "fanout {}"),
        idle=_WHOLE, idle_at=at.idle_as_the_last_of(1))
    deep_fanout: int | None = knob(
        None, WholeOrTask(1, "None takes the task's"),
        help="In-neighbors sampled per node at every further hop; None: as many as the task says.",
        search=(None, 15, 10, 5, 2), at=at.below_the_deep_fanouts, learns=ALWAYS, show=Phrase(10, "deeper fanout {}"),
        idle=_WHOLE, idle_at=at.idle_as_the_last_of(2))
    compute_dtype: ComputeDtype = knob(
        "float32", OneOf(COMPUTE_DTYPES),
        help="What activations are, and the operands of dense products: float32 or bfloat16. Sums, sparse features, "
        "weights and the optimizer are float32.",
        at=at.only_where(at.gains_by_bfloat16, otherwise=("float32",)), learns=ALWAYS,
        show=Phrase(11, "{}", names=("fp32", "bf16")))
    input_aggregation: InputAggregation = knob(
        "sampled", OneOf(INPUT_AGGREGATIONS),
        help="What the input layer aggregates: sampled neighbors, or all of them (full), once per graph, and kept "
        "beside it; the last hop is then not sampled, and its fanout does not matter. For sage, gcn and gin.",
        at=at.only_where(at.has_a_small_table, otherwise=("sampled",)), idle=_WHOLE, learns=ALWAYS,
        show=Phrase(12, "{} first layer", names=("sampled", "exact")))
    feature_dtype: FeatureDtype = knob(
        "float32", OneOf(FEATURE_DTYPES),
        help="What rows of float32 are kept as in RAM, on disk and in caches: float32, or float16, to which they are "
        "rounded once. They are widened as they are read.",
        at=at.only_where(at.has_rows_to_halve, otherwise=("float32",)), learns=ALWAYS,
        show=Phrase(13, "features in {}", names=("fp32", "fp16")))
    learning_rate_scale: float = knob(
        1.0, Real(0, "1 is the task's learning rate", excluded=True),
        help="Factor on the task's learning rate; above 1 the rate rises to it linearly over the first "
        "epoch, or 20 mini-batches where that has fewer.",
        search=(0.5, 1.0, 2.0, 4.0), learns=ALWAYS, show=Phrase(14, "lr x{:g}"))
    trainers: int = knob(
        1, Whole(1, "1 is one trainer"),
        help="Trainers of one process that share each mini-batch: one for each GPU, the others on the processors, "
        "whose threads they divide. What is learned is the same to rounding.",
        search=(1, 2), at=at.with_the_processors, idle=_WHOLE, learns=ALWAYS, show=Phrase(15, "trainers {}"))
    prefetch_depth: int = knob(
        0, Whole(0, "0 leaves it to parallel_mode"),
        help="Of several trainers: by how many mini-batches sampling is ahead of loading features, loading of "
        "transfer, and transfer of training, each; 0 leaves that to parallel_mode and num_workers.",
        search=(0, 1), at=at.only_where(at.has_device, otherwise=(0,)), scale="linear", idle=where(trainers=1) | _WHOLE,
        show=Phrase(16, "prefetch {}"))
    adapt: Adapt = knob(
        "off", OneOf(ADAPT),
        help="Of several trainers: on changes their shares and threads while they train, by measured seconds.",
        search=("off",), idle=where(trainers=1) | _WHOLE, learns=ALWAYS, show=Phrase(17, "adapting"))
    searched: Values = ()
    schema_version: int = SCHEMA_VERSION
    # fmt: on

    def __post_init__(self) -> None:
        object.__setattr__(self, "searched", as_values(self.searched))
        for name, value in with_kept_policy({"cache_policy": self.cache_policy}).items():
            object.__setattr__(self, name, value)
        for one in KNOBS:
            if (value := getattr(self, one.name)) == ALL_TEXT:
                object.__setattr__(self, one.name, value := one.loaded(value))
            one.domain.check(one.name, value)
        check_version("TrainConfig", self.schema_version)

    def canonical(self) -> Self:
        """Returns the configuration that stands for all that run identically to this one: idle knobs at default."""
        fields = self.knobs()
        return dataclasses.replace(self, **{one.name: one.settled(fields) for one in KNOBS})

    def learning_key(self) -> LearningKey:
        """Returns the knobs that decide what is learned, as pairs: equal keys train bit-identically on one task.

        Choices by measured times are the exception: threads with `resources` auto, and the shares of several trainers
        with `adapt` or between processors and GPUs. Sums then differ in their last bits, so that equal keys train the
        same only up to rounding.
        """
        return (*_keyed(self.learning_values()).items(), *self.searched)

    def curve_key(self, task: Task) -> LearningKey:
        """Returns the key, as pairs, that is equal for trials of `task` that share a learning curve.

        It is the learning key, or the whole configuration for a user's model that does not train alike twice.
        """
        own = task.own
        if own is None or own.repeats:
            return self.learning_key()
        fields = self.canonical().to_dict()
        fields.pop("searched", None)
        return (*fields.items(), *self.searched)

    def task_of(self, task: Task) -> Task:
        """Returns what a trial of this configuration trains: `task` with the values of the search, if there is one."""
        return task.with_values(dict(self.searched)) if self.searched else task

    def learning_values(self) -> dict[str, Any]:
        """Returns the knobs that can decide the mini-batches' content, by name; defaults for those that do not here."""
        fields = self.canonical().knobs()
        learning = (one for one in KNOBS if one.learns != NEVER)
        return {one.name: fields[one.name] if one.learns.holds(fields) else one.default for one in learning}

    def fanouts(self, task: Task) -> tuple[int, ...]:
        """Returns the in-neighbors that training samples per node and hop, the seeds' hop first; -1 takes all.

        A model without an encoder samples none. The whole graph has all of them.
        """
        if task.model == EMBEDDING:
            return ()
        if self.batch_size == ALL:
            return (-1,) * task.num_layers
        seed, *deep = task.fanouts
        return (
            seed if self.seed_fanout is None else self.seed_fanout,
            *(fanout if self.deep_fanout is None else self.deep_fanout for fanout in deep),
        )

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with `changes`; unknown names are refused."""
        check_names("TrainConfig", changes, {f.name for f in dataclasses.fields(self)})
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types; `searched` only if there is a search, so that other keys stay."""
        fields = dataclasses.asdict(self) | {one.name: one.stored(getattr(self, one.name)) for one in KNOBS}
        fields["searched"] = dict(self.searched)
        return {name: value for name, value in fields.items() if name != "searched" or value}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the configuration of `to_dict`; unknown fields and other schema versions are refused."""
        check_names("TrainConfig", fields, {f.name for f in dataclasses.fields(cls)})
        return cls(**fields)

    def key(self, old_policy: str = "") -> str:
        """Returns a short stable hash of the canonical configuration.

        Args:
            old_policy: The cache policy of an older version that a stored configuration has in place of this one's.
        """
        fields = self.canonical().to_dict()
        if old_policy and self.cache_bytes:
            fields["cache_policy"] = old_policy
        return hash_of(_keyed(fields))

    def knobs(self) -> dict[str, Any]:
        """Returns the knobs' values by name."""
        return {one.name: getattr(self, one.name) for one in KNOBS}


#: The table of knobs, in the order of the fields.
KNOBS = knobs_of(TrainConfig)
document(
    TrainConfig,
    KNOBS,
    "searched: Values of a search in place of the task's, by name: sorted pairs; a mapping is accepted.",
)


def check_whole(config: TrainConfig, task: Task, *, typed: bool, parted: bool = False, several: bool = False) -> None:
    """Checks that the whole graph can be the mini-batch, if `config` asks for that.

    Args:
        config: The configuration.
        task: What is trained.
        typed: Whether the graph has node types, or links are predicted.
        parted: Whether graph servers hold the graph.
        several: Whether several trainers or processes share mini-batches.

    Raises:
        ConfigError: It can't.
    """
    if config.batch_size != ALL:
        return
    for refused, needed in (
        (task.is_own, f"a built-in model, got {task.model}"),
        (typed, "nodes of a graph without node types, got types or links"),
        (parted, "a graph on this machine, got one on graph servers"),
        (several or config.trainers > 1, "one trainer in one process, got several"),
        (config.feature_tier == "disk", "features in RAM, got feature_tier disk"),
    ):
        if refused:
            raise ConfigError(f"batch_size {ALL_TEXT} needs {needed}; set batch_size to a number such as 1024")


#: The column of a search's values among columns of knobs, and the values by their number there; 0 is none.
SEARCHED = "searched"
_NUMBERED: list[Values] = [()]
_NUMBERS: dict[Values, int] = {(): 0}


def number_of(values: Values) -> int:
    """Returns a number for `values`, equal in this process for equal ones alone; 0 for none."""
    if values not in _NUMBERS:
        _NUMBERS[values] = len(_NUMBERED)
        _NUMBERED.append(values)
    return _NUMBERS[values]


def numbered(number: int) -> Values:
    """Returns the values of `number_of`."""
    return _NUMBERED[number]


def with_kept_policy(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values of knobs with a cache policy of an older version replaced by the nearest, and warns if it is one.

    Sampling was never biased towards lfu's and auto's caches, whatever `bias_rate` was, so it becomes 1 with them.
    """
    old = fields.get("cache_policy")
    if not isinstance(old, str) or old not in _OLD_POLICIES:
        return dict(fields)
    near, unbiased = _OLD_POLICIES[old], old in ("lfu", "auto")
    warnings.warn(
        f"cache_policy {old} no longer exists; {near}, the nearest, is used{' with bias_rate 1' if unbiased else ''}",
        stacklevel=1,  # one place, so that Python prints it once per process
    )
    return {**fields, "cache_policy": near} | ({"bias_rate": 1.0} if unbiased else {})


def _keyed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `fields` of `TrainConfig` without the later knobs (`Knob.later`) at their defaults."""
    later = {one.name: one.default for one in KNOBS if one.later}
    return {name: value for name, value in fields.items() if name not in later or value != later[name]}
