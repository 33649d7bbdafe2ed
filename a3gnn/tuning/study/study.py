"""`TuneRequest`: the checked options of a tune; `Study`: what is fixed in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from a3gnn._fields import from_fields
from a3gnn.checks import checked_limit, flag, positive_number, real_number, whole_number
from a3gnn.config import AHEAD, KNOBS, STATIC_POLICIES, TrainConfig, check_whole, with_kept_policy
from a3gnn.errors import UsageError, unknown_name
from a3gnn.hardware import Hardware
from a3gnn.knobs import ALL, Where, where
from a3gnn.launch import QUICK
from a3gnn.limits import Limits
from a3gnn.measurement import Measurement
from a3gnn.metric import ACCURACY, ERRORS, METRIC_LABELS
from a3gnn.objectives import Objectives, Priority
from a3gnn.option_names import option
from a3gnn.profiling.request import CurvePlan, TrialPlan
from a3gnn.search import Search, Searched, checked_search, enqueued
from a3gnn.search_values import reads_a_table
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace, check_enumerable
from a3gnn.storage.host_limits import evaluation_bytes
from a3gnn.task import Task, Values, as_values

#: The memory limit that allows the measured peak of the default configuration.
DEFAULT_PEAK: Literal["default"] = "default"
#: Bounds of a trial's timeout; the last value, in seconds, for a budget in trials. A trial that hangs ends by them.
_MIN_TIMEOUT_S, _MAX_TIMEOUT_S, _COUNTED_TIMEOUT_S = 60.0, 1800.0, 600.0
#: The default's training may take the first share of a budget in seconds; and the second one if the requested epochs
#: or target need it, or as long as its accuracy can still stop improving within that. It may take so many seconds at
#: least. The baseline's seconds are missing elsewhere; docs/design/tuning.md has tunes by these shares.
_CURVE_SHARE, _PLATEAU_SHARE, _MIN_CURVE_S = 1 / 8, 1 / 3, 0.5 if QUICK else 2.0
#: A budget in trials counts as so many seconds, as docs/design/tuning.md has them.
COUNTED_S = 6.0 if QUICK else 480.0
#: Share of the budget that models without a network may take, beside what decides, and most seconds.
_REFERENCES_SHARE, _MOST_REFERENCES_S = 1 / 10, 60.0


#: Share of a tune's budget for quality that one training may take: eight shapes in four rounds take two and a half such
#: shares, the verification two at least, and steps around the best the rest.
_QUALITY_SHARE = 1 / 8
#: Most edges of a graph on which a tune for quality trains in full batches. Guess: a step takes a second or two.
_MOST_WHOLE_EDGES = 1_000_000


#: Default engines of older versions, in stored tunes.
_OLD_ENGINES = ("local",)
#: Engines that choose trials (`a3gnn.tuning.engines.engine`).
ENGINES = ("ppo", "ei", "gp", "tpe", "nsga2", "random", "exhaustive")


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """The options of a tune, all checked as far as they can be without a graph and a machine.

    Attributes:
        spec: The graph, as `Graph.load` takes it.
        task: The model and its training options.
        priority: Ranks the configurations that keep the limits.
        memory_limit: Limit on device memory, or on host memory without a device, in bytes; "default" for the default
            configuration's measured peak; None for no limit.
        host_memory_limit: Limit on host memory of a machine with a device, in bytes.
        max_accuracy_drop: Points (hundredths) of validation quality, by the task's metric, that may be lost against the
            default configuration, when that stops improving, or as far as the budget trains it.
        budget: Seconds (float), or trials after the default configuration (int).
        engine: Name of the engine that chooses trials.
        fixed: Knobs held at a value.
        ranges: Knobs restricted to (low, high).
        seed: Decides every random choice of the tune; the task's seed decides those of training.
        accuracy_epochs: Epochs of the default's budget. None takes those of the task's learning-rate schedule; without
            a schedule, the default trains until its accuracy stops improving.
        target_accuracy: The validation quality to reach, in percent, or an error; None takes the default's best less
            `max_accuracy_drop`.
        search: Names of the task, or of the arguments of its factory, with the values to try (`a3gnn.search`).
        enqueue: Trials to run first: values of knobs and of names of the search, as pairs; others as the baseline's.
        references: Whether models without a graph network are trained first, on nodes
            (`a3gnn.evaluation.row_models`).
        recipe: Whether the search is the recipe for quality (`a3gnn.tuning.study.quality`).

    Raises:
        UsageError: An option has a wrong value.
    """

    spec: str
    task: Task
    priority: Priority
    memory_limit: int | Literal["default"] | None
    host_memory_limit: int | None
    max_accuracy_drop: float
    budget: float | int
    engine: str
    fixed: tuple[tuple[str, Any], ...] = ()
    ranges: tuple[tuple[str, Any, Any], ...] = ()
    seed: int = 0
    accuracy_epochs: int | None = None
    target_accuracy: float | None = None
    search: Search = ()
    enqueue: tuple[Values, ...] = ()
    references: bool = True
    recipe: bool = False

    def __post_init__(self) -> None:
        for name, kind in (("task", Task), ("priority", Priority)):
            if not isinstance(getattr(self, name), kind):
                raise UsageError(f"{name} must be a {kind.__name__}, got {getattr(self, name)!r}")
        if not isinstance(self.engine, str) or self.engine not in ENGINES:
            raise unknown_name(option("engine"), self.engine, ENGINES)
        checked: dict[str, Any] = {
            "host_memory_limit": checked_limit(option("host_memory_limit"), self.host_memory_limit),
            "max_accuracy_drop": real_number(option("max_accuracy_drop"), self.max_accuracy_drop, "points"),
            "budget": positive_number(option("budget"), self.budget, "a duration such as 10min or a number of trials"),
            "seed": whole_number(option("seed"), self.seed, 0),
            "references": flag(option("references"), self.references),
        }
        if self.memory_limit != DEFAULT_PEAK:
            checked["memory_limit"] = checked_limit(option("memory_limit"), self.memory_limit)
        if self.accuracy_epochs is not None:
            checked["accuracy_epochs"] = whole_number(option("accuracy_epochs"), self.accuracy_epochs, 1)
        if self.target_accuracy is not None:
            self._check_target()
        knobs = SearchSpace(KNOBS)
        checked["ranges"] = tuple((name, *map(knobs.knob(name).parse, ends)) for name, *ends in self.ranges)
        fixed = {name: knobs.knob(name).parse(value) for name, value in self.fixed}
        checked["fixed"] = tuple(with_kept_policy(fixed).items())
        checked["search"] = enqueued(checked_search(self.search, self.task), map(dict, self.enqueue))
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self._shape(knobs)
        object.__setattr__(self, "enqueue", tuple(map(self._enqueued, self.enqueue)))

    @property
    def races(self) -> bool:
        """Whether the engine is the recipe's race: for quality, without an engine or a search of one's own."""
        return self.priority.final and self.recipe and self.engine == ENGINES[0]

    @property
    def default_epochs(self) -> int | None:
        """Epochs that the default trains; None until its accuracy stops improving."""
        return self.task.lr_epochs if self.accuracy_epochs is None else self.accuracy_epochs

    def space(self, setting: Setting) -> SearchSpace:
        """Returns the space of `setting` with the fixed knobs and the ranges applied.

        Raises:
            UsageError: Nothing in the requested space can run there, or it is too large for the engine.
        """
        space = self._shape(SearchSpace.of(setting))
        if self._reads_from_disk(space, setting):
            space = space.offer("cache_policy", AHEAD)
        if self._may_be_whole(space, setting):
            space = space.offer("batch_size", ALL)
        for trial in self.enqueue:
            space = space.including(dict(trial))
        space = self._searched(space, setting)
        refuse_impossible(space, self.engine, setting)
        return space

    def _searched(self, space: SearchSpace, setting: Setting) -> SearchSpace:
        """Returns `space` with the columns of the search."""
        names = {one.name: one for one in self.search}
        found = space.with_search([one.knob(setting.task, names) for one in self.search]) if names else space
        without_table = _tableless(setting.task, names)
        if without_table is None or found.knob("input_aggregation").values == ("sampled",):
            return found
        return found.idle_too("input_aggregation", without_table)

    def _enqueued(self, trial: Values) -> Values:
        """Returns the checked values of a trial to run first.

        Raises:
            UsageError: A name is neither a knob's nor the search's, or its value contradicts the other options.
        """
        searched, known, found = {one.name for one in self.search}, SearchSpace(KNOBS), dict[str, Any]()
        bounds = {name: (low, high) for name, low, high in self.ranges} | {name: (one, one) for name, one in self.fixed}
        for name, value in trial:
            if name not in searched and name not in known.names:
                raise unknown_name("enqueue", name, [*searched, *known.names])
            found[name] = own = value if name in searched else known.knob(name).parse(value)
            low, high = bounds.get(name, (own, own))
            if own not in (low, high) and not low < own < high:
                held = f"{low}" if low == high else f"in {low} to {high}"
                raise UsageError(f"enqueue: {name} must be {held}, which this tune holds it to, got {own}")
        TrainConfig(**{name: value for name, value in found.items() if name not in searched})
        return as_values(found)

    def _may_be_whole(self, space: SearchSpace, setting: Setting) -> bool:
        """Returns whether the whole graph is tried as a mini-batch: for quality, on a small graph, unless excluded."""
        graph, held = setting.graph, {name for name, *_ in (*self.fixed, *self.ranges)}
        other = setting.task.is_own or graph.relations or graph.ends or "batch_size" in held
        if not self.priority.final or other or graph.num_edges > _MOST_WHOLE_EDGES:
            return False
        return bool(space.knob("feature_tier").values[0] == "ram" and space.knob("trainers").values[0] == 1)

    def _reads_from_disk(self, space: SearchSpace, setting: Setting) -> bool:
        """Returns whether dense rows are read from disk: the tier is fixed, or they exceed the memory limit."""
        graph, policies = setting.graph, space.knob("cache_policy").values
        if graph.sparse_features or graph.relations or "cache_policy" in dict(self.fixed) or AHEAD in policies:
            return False
        tiers = space.knob("feature_tier").values
        return tiers == ("disk",) or ("disk" in tiers and self.features_fill_memory(setting))

    def features_fill_memory(self, setting: Setting) -> bool:
        """Returns whether dense rows alone take as much as the memory limit, so that no trial can hold them."""
        graph = setting.graph
        limit = self.limits(setting.hardware, None).host_bytes or setting.hardware.host_memory_bytes
        return not graph.sparse_features and not graph.relations and graph.feature_bytes >= limit

    @property
    def max_drop(self) -> float:
        """`max_accuracy_drop` as a share of 1."""
        return self.max_accuracy_drop / 100

    def limits(self, hardware: Hardware, least_accuracy: float | None, default_bytes: int | None = None) -> Limits:
        """Returns the limits on `hardware`.

        Args:
            hardware: Its device, if any, is the memory that `memory_limit` limits.
            least_accuracy: The least validation quality by the task's metric, or None.
            default_bytes: Bytes that a memory limit of "default" allows; None for no limit, before it is measured.
        """
        memory = default_bytes if self.memory_limit == DEFAULT_PEAK else self.memory_limit
        host, device = memory, None
        if hardware.has_device:
            host, device = self.host_memory_limit, memory
        elif self.host_memory_limit is not None:
            host = min(self.host_memory_limit, host or self.host_memory_limit)
        return Limits(host, device, least_accuracy)

    @property
    def evaluation_bytes(self) -> int:
        """Memory for one evaluation pass of a user's own model: a share of the smallest limit that is a size."""
        given = (self.memory_limit, self.host_memory_limit)
        return evaluation_bytes(min((limit for limit in given if isinstance(limit, int)), default=None))

    def to_dict(self) -> dict[str, Any]:
        """Returns the options as JSON types."""
        fields = dataclasses.asdict(self) | {"task": self.task.to_dict()}
        fields |= {"search": [one.to_dict() for one in self.search], "enqueue": [dict(one) for one in self.enqueue]}
        for name in ("search", "enqueue", "recipe"):
            if not fields[name]:
                del fields[name]
        return fields | {name: [list(entry) for entry in fields[name]] for name in ("fixed", "ranges")}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the options of `to_dict`."""
        parts: dict[str, Any] = {"task": Task.from_dict(fields["task"]), "priority": Priority(**fields["priority"])}
        parts["search"] = tuple(map(Searched.from_dict, fields.get("search", ())))
        parts["enqueue"] = tuple(map(as_values, fields.get("enqueue", ())))
        if fields.get("engine") in _OLD_ENGINES:
            parts["engine"] = "ppo"
        return from_fields(cls, dict(fields) | parts)

    def _check_target(self) -> None:
        """Checks the target as far as possible without a graph, which defines the unit of an error."""
        if self.task.metric in ERRORS:
            positive_number(option("target_accuracy"), self.target_accuracy, f"a {METRIC_LABELS[self.task.metric]}")
        else:
            ACCURACY.quality_of(option("target_accuracy"), self.target_accuracy)

    def _shape(self, space: SearchSpace) -> SearchSpace:
        """Returns `space` with the fixed knobs and the ranges applied."""
        for name, low, high in self.ranges:
            space = space.restrict(name, low, high)
        for name, value in self.fixed:
            space = space.fix(name, value)
        return space


def refuse_impossible(space: SearchSpace, engine: str, setting: Setting) -> None:
    """Raises a `UsageError` if no value of a knob can run in `setting`, or `engine` can't search `space`."""
    graph = setting.graph
    if not setting.hardware.has_device and "cpu" not in space.knob("sampling_device").values:
        raise UsageError(
            "sampling_device=cuda needs a CUDA GPU, and this machine has none; leave it out, or fix it to cpu"
        )
    if ALL in space.knob("batch_size").values:
        first = {knob.name: knob.values[0] for knob in space.knobs if knob.name in ("feature_tier", "trainers")}
        check_whole(TrainConfig(batch_size=ALL, **first), setting.task, typed=bool(graph.relations or graph.ends))
    policies = space.knob("cache_policy").values
    if graph.sparse_features and not set(policies) & set(STATIC_POLICIES):
        raise UsageError(
            f"cache_policy={policies[0]} needs dense features, and those of {graph.name} are sparse; "
            f"use one of {', '.join(STATIC_POLICIES)}"
        )
    least_parts = min(space.knob("num_partitions").values)
    if least_parts > graph.num_nodes:
        raise UsageError(
            f"num_partitions must be at most {graph.num_nodes:,}, the nodes of {graph.name}; got {least_parts:,}"
        )
    if not reads_a_table(setting.task) and space.knob("input_aggregation").values == ("full",):
        raise UsageError(
            "input_aggregation=full needs a model whose input layer learns nothing before it aggregates "
            "(sage, gcn, gin, or one of your own with such a first layer that is accelerated, or with adjs and "
            "aggregates = 'mean'), got "
            f"{setting.task.model}{' with a linear residual' * (setting.task.residual == 'linear')}; leave it out, or "
            "fix it to sampled"
        )
    if engine == "exhaustive":
        check_enumerable(space)


@dataclass(frozen=True, slots=True)
class Study:
    """The fixed settings of a tune; its measurements are in its `History`.

    Attributes:
        request: The options of the tune.
        setting: The task, the graph and the machine.
        space: The configurations to choose from.
        plan: How trials are timed, and the limits that are known from the start. `a3gnn.tuning.run.plans` adds
            how far they train.
        corpus: Measurements that the surrogate starts from, of this and other graphs and machines.
        unlearnt: The validation quality of a model that predicts the same for every node, or ranks by popularity.
        heuristics: The validation and test qualities of predictions without a network, by name.
    """

    request: TuneRequest
    setting: Setting
    space: SearchSpace
    plan: TrialPlan
    corpus: tuple[Measurement, ...] = ()
    unlearnt: float = 0.0
    heuristics: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, request: TuneRequest, setting: Setting) -> Self:
        """Returns the study of `request` in `setting`, without a corpus.

        Raises:
            UsageError: Nothing in the requested space can run there, or it is too large for the engine.
        """
        limits = request.limits(setting.hardware, None)
        plan = TrialPlan(
            timeout_s=_timeout_s(request.budget),
            host_limit_bytes=limits.host_bytes,
            device_limit_bytes=limits.device_bytes,
            evaluation_bytes=request.evaluation_bytes if setting.task.is_own else None,
        )
        return cls(request, setting, request.space(setting), plan)

    @property
    def baseline(self) -> TrainConfig:
        """The default configuration; with features on disk where they alone take as much as the memory limit."""
        full = self.request.features_fill_memory(self.setting)
        return (TrainConfig(feature_tier="disk") if full else TrainConfig()).canonical()

    @property
    def target(self) -> float | None:
        """The requested validation quality in [0, 1], or None."""
        asked = self.request.target_accuracy
        return None if asked is None else self.setting.metric.quality_of(option("target_accuracy"), asked)

    @property
    def references_s(self) -> float:
        """Most seconds of models without a network."""
        return min(self.longest_s * _REFERENCES_SHARE, _MOST_REFERENCES_S)

    @property
    def reference_curve(self) -> CurvePlan:
        """The plan of the default's learning curve.

        It trains for the requested epochs, or until accuracy stops improving, but not beyond its share of the budget.
        At its end it is tested, so that the verification needs no other training for that.
        """
        request = self.request
        budget = COUNTED_S if isinstance(request.budget, int) else request.budget
        endless = request.default_epochs is None
        target = self.target if endless else None
        has_end = not endless or target is not None
        shares = _CURVE_SHARE, self._settling_share
        shortest_s, longest_s = (max(budget * share, _MIN_CURVE_S) for share in shares)
        return CurvePlan(
            most_seconds=longest_s if has_end else shortest_s,
            until_plateau=endless,
            plateau_seconds=None if has_end else longest_s,
            target=target,
            most_epochs=request.default_epochs,
            tests=True,
        )

    @property
    def quality_s(self) -> float:
        """Most seconds of a training in a tune for quality."""
        return self.longest_s * _QUALITY_SHARE

    @property
    def longest_s(self) -> float:
        """Most seconds of training until a configuration stops improving: the whole budget."""
        return COUNTED_S if isinstance(self.request.budget, int) else float(self.request.budget)

    def settling_budget_s(self, trained_s: float) -> float:
        """Returns the budget in seconds under which the default may train for `trained_s` seconds."""
        return trained_s / self._settling_share

    @property
    def _settling_share(self) -> float:
        """The default's largest share of the budget; no more than that of others where quality counts."""
        return _QUALITY_SHARE if self.request.priority.final else _PLATEAU_SHARE

    def objectives(self, least_accuracy: float | None, default_bytes: int | None) -> Objectives:
        """Returns the objectives of the tune; arguments as in `TuneRequest.limits`."""
        request, hardware = self.request, self.setting.hardware
        limits = request.limits(hardware, least_accuracy, default_bytes)
        judged = dataclasses.replace(limits, metric=self.setting.metric)
        return Objectives(judged, request.priority, hardware.has_device)


def _tableless(task: Task, search: Mapping[str, Searched]) -> Where | None:
    """Returns where, in the values of a `search`, a built-in model's input layer reads no table; None if nowhere."""
    if task.is_own or not search.keys() & {"model", "residual"}:
        return None
    models = search["model"].values if "model" in search else (task.model,)
    found: Where | None = None
    for residual in search["residual"].values if "residual" in search else (task.residual,):
        given = {one: task.with_values({"model": one, "residual": residual}) for one in models}
        without = tuple(one for one, made in given.items() if not reads_a_table(made))
        named = where(model=without) if "model" in search else where(residual=(residual,))
        if "model" in search and "residual" in search:
            named = ~(~named | ~where(residual=(residual,)))
        if without:
            found = named if found is None else found | named
    return found


def _timeout_s(budget: float | int) -> float:
    """Returns the seconds that a trial may take: as long as the default may train, within bounds."""
    if isinstance(budget, int):
        return _COUNTED_TIMEOUT_S
    return min(max(budget * _PLATEAU_SHARE, _MIN_TIMEOUT_S), _MAX_TIMEOUT_S)
