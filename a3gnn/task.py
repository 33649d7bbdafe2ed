"""`Task`: the model and how it learns, which tuning does not change; `OwnModel`: a description of a user's model."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, get_args

from a3gnn._fields import SCHEMA_VERSION, Stored, check_names, check_version, hash_of
from a3gnn.checks import OneOf, Whole
from a3gnn.errors import ConfigError, unknown_name
from a3gnn.metric import METRIC_NAMES, MetricName
from a3gnn.units import count

ModelName = Literal["sage", "gcn", "gat", "gin", "gatv2", "transformer"]
MODELS: tuple[ModelName, ...] = get_args(ModelName)
#: The model of links without an encoder: an embedding per node.
EMBEDDING = "embedding"
#: Models of PyG's modules that ship with a3gnn, for graphs with types; `Factory` knows what makes each.
SHIPPED = ("rsage", EMBEDDING)
#: Names of the models in text; a model of the user's own has its own name.
MODEL_LABELS = {
    "sage": "GraphSAGE",
    "gcn": "GCN",
    "gat": "GAT",
    "gin": "GIN",
    "gatv2": "GATv2",
    "transformer": "graph transformer",
    "rsage": "relational GraphSAGE",
    "embedding": "an embedding per node",
}
#: Sizes and rates of a task, by their names as options of commands and fields of requests.
NUMBER_OPTIONS = {
    "hidden": "hidden_channels",
    "lr": "learning_rate",
    "dropout": "dropout",
    "weight_decay": "weight_decay",
    "heads": "heads",
}
#: Models that learn the weights of in-neighbors' rows, head by head.
ATTENTION: tuple[ModelName, ...] = ("gat", "gatv2", "transformer")
#: Models whose layers use PyG's modules.
_OF_PYG: tuple[ModelName, ...] = ("gin", *ATTENTION)
ClassWeights = Literal["none", "balanced"]
CLASS_WEIGHTS: tuple[ClassWeights, ...] = get_args(ClassWeights)
LossName = Literal["mse", "mae"]
LOSSES: tuple[LossName, ...] = get_args(LossName)
ScheduleName = Literal["constant", "linear", "cosine"]
SCHEDULES: tuple[ScheduleName, ...] = get_args(ScheduleName)
DecoderName = Literal["dot", "mlp", "distmult", "rotate"]
DECODERS: tuple[DecoderName, ...] = get_args(DecoderName)
OwnLinks = Literal["shown", "hidden"]
OWN_LINKS: tuple[OwnLinks, ...] = get_args(OwnLinks)
NormName = Literal["none", "batch", "layer"]
NORMS: tuple[NormName, ...] = get_args(NormName)
#: Whether layers add their own input rows to their output; linear maps them first.
Residual = bool | Literal["linear"]

#: Input of `forward` besides x: PyG's edge_index, or every layer's adjacency.
Takes = Literal["edge_index", "adjs"]
#: How an input layer reduces in-neighbors' rows before any learned operation (`a3gnn.features.row_table.Aggregator`).
Aggregates = Literal["mean", "sum", "gcn"]
#: Which accuracies are computed from a fixed sample of in-neighbors, not from all.
Sampled = Literal["none", "validation", "test", "all"]

#: How a message names a factory among the models.
_YOUR_OWN = "your own package.module:function"
_FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

#: The aggregation of the input layer, of the models whose input layer learns nothing before it aggregates.
_TABLES: dict[str, Aggregates] = {"sage": "mean", "gcn": "gcn", "gin": "sum"}
#: Default fanouts of one, two and three layers; further layers repeat the third's. Two layers: Hamilton et al., 2017,
#: section 4. Three layers: OGB's examples on ogbn-products.
_FANOUTS: tuple[tuple[int, ...], ...] = ((25,), (25, 10), (15, 10, 5))
#: Fields that were added after the first stored rows.
_LATER = (
    *("own", "metric", "class_weights", "loss", "norm", "residual", "lr_schedule", "lr_epochs", "edge_dim"),
    *("decoder", "negatives", "own_links", "arguments", "pair_history"),
)
#: Fields that the factory decides for a model of the user's own.
_BUILT_IN = ("hidden_channels", "dropout", "heads", "norm", "residual")
#: Those that a shipped factory takes.
_SHIPPED_OPTIONS = ("hidden_channels", "dropout")
#: Names that a search may give values to, for every model: how it learns. A factory gets all other names itself.
LEARNING_FIELDS = ("learning_rate", "weight_decay", "lr_schedule", "lr_epochs")
#: Those of built-in models besides; `layers` stands for the fanouts of so many layers.
SEARCHED_FIELDS = ("model", "layers", *_BUILT_IN, *LEARNING_FIELDS)
#: Pairs of a name and its value, sorted by name: arguments of a factory, or values in place of a task's fields.
Values = tuple[tuple[str, Any], ...]


def as_tuple(value: Any) -> Any:
    """Returns `value` with lists, and those within, as tuples."""
    return tuple(map(as_tuple, value)) if isinstance(value, list | tuple) else value


def as_values(given: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Values:
    """Returns `given` as pairs, sorted by name, with lists as tuples."""
    pairs = given.items() if isinstance(given, Mapping) else given
    return tuple(sorted((str(name), as_tuple(one)) for name, one in pairs))


class NegativeDraws(NamedTuple):
    """What the true pairs of a mini-batch of links compete with, and the loss.

    Attributes:
        loss: binary: cross-entropy of true pairs and of negatives. softmax: cross-entropy of each true pair among the
            candidates of its query.
        amount: For binary, negatives of each pair, never a train pair. For softmax, random candidates that all pairs of
            the mini-batch share; 0 takes the candidates of its pairs. A query's other train pairs are left out.
    """

    loss: Literal["binary", "softmax"]
    amount: int

    @classmethod
    def of(cls, text: object) -> Self:
        """Returns the draws of a text such as `binary:1`, `softmax:256` or `softmax`.

        Raises:
            ConfigError: It is none.
        """
        name, colon, amount = text.partition(":") if isinstance(text, str) else ("", "", "")
        if name == "softmax" and not colon:
            return cls("softmax", 0)
        if name not in ("binary", "softmax") or not amount.isdecimal() or int(amount) < 1:
            raise ConfigError(
                f"negatives must be binary:N, softmax:N with N >= 1, or softmax, got {text!r}; binary:1 is the default"
            )
        return cls("binary" if name == "binary" else "softmax", int(amount))


@dataclass(frozen=True, slots=True)
class OwnCost(Stored):
    """Cost of a forward pass, from a count of its operations.

    Nodes and edges are the ones that layers compute on. If the model takes adjs, they are summed over its layers, with
    as many destinations as sources. If it takes edge_index, they are those of the whole mini-batch, counted once.

    Attributes:
        parameters: Number of weights.
        node_flops: Multiplications and additions of dense products, per node.
        edge_flops: The same per edge.
        node_bytes: Bytes that operations write, per node.
        edge_bytes: The same per edge.
        edge_reads: Bytes that sparse products read per edge; they are traffic and take no memory.
    """

    parameters: int
    node_flops: float
    edge_flops: float
    node_bytes: float
    edge_bytes: float
    edge_reads: float

    def bytes(self, nodes: float, edges: float) -> float:
        """Returns the bytes that a forward pass writes, an upper bound on those alive at once."""
        return self.node_bytes * nodes + self.edge_bytes * edges

    def moved(self, nodes: float, edges: float) -> float:
        """Returns the memory traffic of a forward pass: bytes written, and bytes read by sparse products."""
        return self.bytes(nodes, edges) + self.edge_reads * edges


@dataclass(frozen=True, slots=True)
class OwnModel(Stored):
    """The model that a user's factory makes on one graph. Tasks contain it, so their keys change with it.

    Attributes:
        sources: Hash of the user's files that the factory's module imports, and of the versions of the packages that
            these import.
        shapes: Hash of the names, shapes and types of the parameters and buffers.
        takes: Input of `forward` besides x.
        aggregates: Aggregation of the input layer: the declared one if the model takes adjs, else the one whose
            table an accelerated first layer reads; None if there is none.
        cost: Cost of a forward pass.
        repeats: Whether training the same mini-batches twice gave the same bits, as far as tried. If not,
            configurations with equal learning keys do not share curves.
        sampled: Which accuracies of trials are computed from a fixed sample of in-neighbors, not from all.
        pass_bytes: Largest bytes of an evaluation pass in trials; 0 if no trials were planned.
        native: Convolutions that run a3gnn's kernels (`a3gnn.accelerate`).
        edge_values: Values of edges that `forward` gets by name: edge_attr, edge_weight, both or none.
        edge_dim: Columns of edge_attr that it gets; with types, of the relation with the most; 0 without.

    Raises:
        ConfigError: A name is not among its choices.
    """

    sources: str
    shapes: str
    takes: Takes
    aggregates: Aggregates | None
    cost: OwnCost
    repeats: bool = True
    sampled: Sampled = "none"
    pass_bytes: int = 0
    native: int = 0
    edge_values: tuple[str, ...] = ()
    edge_dim: int = 0

    def __post_init__(self) -> None:
        OneOf(get_args(Takes)).check("takes", self.takes)
        OneOf(get_args(Sampled)).check("sampled", self.sampled)
        if self.aggregates is not None:
            OneOf(get_args(Aggregates)).check("aggregates", self.aggregates)

    @property
    def reads_a_table(self) -> bool:
        """Whether its input layer can read a table of aggregates of whole in-neighborhoods."""
        return self.aggregates == "mean" if self.takes == "adjs" else self.native > 0 and self.aggregates is not None


@dataclass(frozen=True, slots=True)
class Task:
    """The model and how it learns; tuning does not change it.

    Attributes:
        model: sage, gcn, gat, gin, gatv2 or transformer; or the factory of a model of your own as
            package.module:function.
        hidden_channels: Width of the hidden layers. The factory of your own model decides it, and also heads, dropout,
            norm and residual.
        fanouts: In-neighbors sampled per node, the seeds' hop first, one number per layer; -1 takes all. A
            configuration can override them (`TrainConfig.fanouts`).
        dropout: Probability of dropping an activation between layers.
        learning_rate: Adam's step size.
        weight_decay: Adam's L2 penalty.
        heads: Attention heads (gat, gatv2 and transformer only).
        precision: fp32.
        seed: Decides initial weights, seed order, neighbors and dropout.
        schema_version: Version of these fields.
        own: Facts about your own model, once it was built for a graph; None before that, and for built-in models.
        metric: Metric on validation and test nodes (`a3gnn.metric`).
        class_weights: none, or balanced: seeds of rarer classes weigh more (`a3gnn.models.loss`).
        loss: Loss of predicted values: mse or mae, the mean squared or absolute error.
        norm: Normalization of rows between layers: none, batch or layer (docs/reference/models.md).
        residual: Whether every layer but the first adds its own input rows to its output; linear if every layer adds
            a linear map of them (docs/reference/models.md).
        lr_schedule: How the learning rate falls: constant, or linear or cosine to 0 (`a3gnn.training.learner`).
        lr_epochs: Epochs over which the rate falls, however long the training is; None if it is constant.
        edge_dim: Columns of the edges' values that a built-in model reads: those of edge_attr with attention, 1 for
            edge_weight with gcn; 0 if it reads none. The graph decides it (`a3gnn.evaluation.choose_metric`).
        decoder: How links are scored from the rows of both ends: dot, mlp, distmult or rotate
            (`a3gnn.models.decoders`).
        negatives: What true links compete with in training, and the loss (`NegativeDraws`).
        own_links: Whether message passing of a mini-batch shows the links that it trains, or hides them and their
            reverses; hidden if values of edges are predicted.
        arguments: Further arguments of your own model's factory, by name; a mapping is accepted.
        pair_history: If links have times, how many last links of each end the decoder looks through for earlier links
            of the pair (`a3gnn.sampling.link_history`); 0 for none.
    """

    model: ModelName | str = "sage"
    hidden_channels: int = 256
    fanouts: tuple[int, ...] = _FANOUTS[1]
    dropout: float = 0.5
    learning_rate: float = 0.003
    weight_decay: float = 0.0
    heads: int = 4
    precision: Literal["fp32"] = "fp32"
    seed: int = 0
    schema_version: int = SCHEMA_VERSION
    own: OwnModel | None = None
    metric: MetricName = "accuracy"
    class_weights: ClassWeights = "none"
    loss: LossName = "mse"
    norm: NormName = "none"
    residual: Residual = False
    lr_schedule: ScheduleName = "constant"
    lr_epochs: int | None = None
    edge_dim: int = 0
    decoder: DecoderName = "dot"
    negatives: str = "binary:1"
    own_links: OwnLinks = "shown"
    arguments: Values = ()
    pair_history: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", as_values(self.arguments))
        self._check_model()
        Whole(1, "256 is the default").check("hidden_channels", self.hidden_channels)
        Whole(1, "4 is the default").check("heads", self.heads)
        if self.model in ATTENTION and self.hidden_channels % self.heads:
            raise ConfigError(
                f"hidden_channels must be a multiple of heads, got {self.hidden_channels} and {self.heads}"
            )
        object.__setattr__(self, "fanouts", tuple(self.fanouts))
        if not self.fanouts or any(
            isinstance(k, bool) or not isinstance(k, int) or (k < 1 and k != -1) for k in self.fanouts
        ):
            raise ConfigError(f"fanouts must be positive integers (or -1 for all), one per layer, got {self.fanouts}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout must be in [0, 1), got {self.dropout}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ConfigError(f"learning_rate must be positive, got {self.learning_rate}")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ConfigError(f"weight_decay must be >= 0, got {self.weight_decay}")
        OneOf(("fp32",)).check("precision", self.precision)
        OneOf(METRIC_NAMES).check("metric", self.metric)
        OneOf(CLASS_WEIGHTS).check("class_weights", self.class_weights)
        OneOf(LOSSES).check("loss", self.loss)
        OneOf(NORMS).check("norm", self.norm)
        if not isinstance(self.residual, bool) and self.residual != "linear":
            raise ConfigError(f"residual must be True, False or linear, got {self.residual!r}")
        self._check_schedule()
        Whole(0, "0 reads no values of edges").check("edge_dim", self.edge_dim)
        if self.edge_dim and (self.is_own or not self.edge_value or (self.model == "gcn" and self.edge_dim > 1)):
            raise ConfigError(
                f"edge_dim must be 0, or columns of edge_attr for {', '.join(ATTENTION)}, or 1 for gcn, got "
                f"{self.edge_dim} for {self.model}"
            )
        OneOf(DECODERS).check("decoder", self.decoder)
        NegativeDraws.of(self.negatives)
        OneOf(OWN_LINKS).check("own_links", self.own_links)
        Whole(0, "0 looks through none").check("pair_history", self.pair_history)
        Whole(0, "any non-negative integer is valid").check("seed", self.seed)
        check_version("Task", self.schema_version)

    def _check_schedule(self) -> None:
        OneOf(SCHEDULES).check("lr_schedule", self.lr_schedule)
        if self.lr_schedule == "constant" and self.lr_epochs is not None:
            raise ConfigError(f"lr_epochs must be left out if lr_schedule is constant, got {self.lr_epochs}")
        if self.lr_schedule != "constant":
            Whole(1, f"lr_schedule {self.lr_schedule} falls over this number of epochs").check(
                "lr_epochs", self.lr_epochs
            )

    def _check_model(self) -> None:
        if not names_factory(self.model):
            if self.model not in (*MODELS, *SHIPPED):
                raise ConfigError(str(unknown_name("model", self.model, (*MODELS, *SHIPPED, _YOUR_OWN))))
            if self.own is not None and self.model in MODELS:
                raise ConfigError(f"own must be None for a built-in model, got {self.own!r} for {self.model}")
        if self.arguments and not names_factory(self.model):
            raise ConfigError(
                f"arguments must be left out for {self.model}, got {dict(self.arguments)}: only a "
                "factory of your own takes some"
            )
        known = {field.name: field.default for field in dataclasses.fields(self)}
        for name in self._without():
            if getattr(self, name) != known[name]:
                owner = "a model of your own" if names_factory(self.model) else "this model"
                raise ConfigError(
                    f"{name} must be left out for {owner}, got {getattr(self, name)} for {self.model}; its factory "
                    "decides that"
                )

    def _without(self) -> tuple[str, ...]:
        """Returns the fields that the factory decides; none for a built-in model."""
        if names_factory(self.model):
            return _BUILT_IN
        return tuple(name for name in _BUILT_IN if name not in _SHIPPED_OPTIONS) if self.model in SHIPPED else ()

    def describe(self) -> str:
        """Returns the model and its training in words: `GraphSAGE, 2 layers of 256, fanouts 25,10, Adam 0.003, ...`."""
        sized = not names_factory(self.model)
        width = f" of {self.hidden_channels}" if sized and self.num_layers > 1 else ""
        layers = [f"{count(self.num_layers, 'layer')}{width}", f"fanouts {','.join(map(str, self.fanouts))}"]
        has_layers = self.model != EMBEDDING
        parts = [
            MODEL_LABELS.get(self.model, self.model),
            *(layers if has_layers else [f"width {self.hidden_channels}"]),
            f"Adam {self.learning_rate:g}",
        ]
        if sized and has_layers:
            parts.append(f"dropout {self.dropout:g}")
        parts += [f"{self.heads} heads"] if self.model in ATTENTION else []
        parts += [f"weight decay {self.weight_decay:g}"] if self.weight_decay else []
        parts += [f"{self.norm} norm"] if self.norm != "none" else []
        parts += ["linear residual" if self.residual == "linear" else "residual"] if self.residual else []
        parts += [str(self.edge_value)] if self.edge_dim else []
        if self.lr_epochs is not None:
            parts.append(f"{self.lr_schedule} schedule of {count(self.lr_epochs, 'epoch')}")
        parts += ["balanced class weights"] if self.class_weights != "none" else []
        parts += [self.decoder] if self.decoder != "dot" else []
        parts += [self.negatives] if self.negatives != "binary:1" else []
        parts += [f"{name} {value}" for name, value in self.arguments]
        return ", ".join(parts)

    @property
    def is_own(self) -> bool:
        """Whether the model is a module that a factory makes: one of the user's own, or a shipped one."""
        return self.model in SHIPPED or names_factory(self.model)

    @property
    def edge_value(self) -> str | None:
        """The values of edges that a built-in model can read, as in PyG; None if it reads none."""
        return "edge_attr" if self.model in ATTENTION else "edge_weight" if self.model == "gcn" else None

    @property
    def edge_values(self) -> tuple[str, ...]:
        """The values of edges that the model reads on its graph."""
        if self.own is not None:
            return self.own.edge_values
        return (str(self.edge_value),) if self.edge_dim else ()

    def is_same_model(self, other: Task) -> bool:
        """Returns whether both have the same model from the same sources, whatever was measured of its behavior."""
        one, another = self.own, other.own
        if self.model != other.model or one is None or another is None:
            return self.model == other.model and one is another
        known = one.shapes and another.shapes  # a search's values change them
        return one.sources == another.sources and (not known or one.shapes == another.shapes)

    @property
    def table_model(self) -> str:
        """The built-in model whose input layer reads the same table under full aggregation."""
        if not self.is_own:
            return self.model
        read = None if self.own is None else self.own.aggregates
        return next((model for model, one in _TABLES.items() if one == read), "sage")

    @property
    def aggregates(self) -> Aggregates | None:
        """The aggregation of the table that the input layer can read under full aggregation; None if it can't."""
        if not self.is_own:
            found = _TABLES.get(self.model)
            without_own = self.residual == "linear" and found != "mean"  # sums mix own rows with the others
            return None if self.edge_dim or without_own else found
        return self.own.aggregates if self.own is not None and self.own.reads_a_table else None

    def with_model(self, model: str) -> Self:
        """Returns the task with another model; for a user's model, the fields that its factory decides get defaults."""
        if not names_factory(model):
            return dataclasses.replace(self, model=model, own=None, edge_dim=0)
        return type(self)(
            model=model,
            fanouts=self.fanouts,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            seed=self.seed,
            metric=self.metric,
            class_weights=self.class_weights,
            loss=self.loss,
            lr_schedule=self.lr_schedule,
            lr_epochs=self.lr_epochs,
            decoder=self.decoder,
            negatives=self.negatives,
            own_links=self.own_links,
            arguments=self.arguments if model == self.model else (),
            pair_history=self.pair_history,
        )

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Returns the task with `values` of a search in place of its own: of its fields, or of its factory's arguments.

        `layers` gives a model as many hops: with the usual fanouts if this task has the usual ones, else with its own,
        the last of them repeated. A constant learning rate has no `lr_epochs`. A factory's description stays, except
        for the shapes of parameters.

        Raises:
            ConfigError: A value is out of range, or does not fit the others.
        """
        own = names_factory(self.model)
        changes = {name: one for name, one in values.items() if name in (LEARNING_FIELDS if own else SEARCHED_FIELDS)}
        arguments = {name: one for name, one in values.items() if name not in changes}
        if "layers" in values:
            changes.pop("layers", None)
            changes["fanouts"] = self._fanouts_of(values["layers"])
        if changes.get("lr_schedule", self.lr_schedule) == "constant":
            changes["lr_epochs"] = None
        if changes.get("model", self.model) != self.model:
            changes["edge_dim"] = 0
        if arguments:
            changes["arguments"] = as_values(dict(self.arguments) | arguments)
        if self.own is not None and not changes.keys() <= set(LEARNING_FIELDS):
            changes["own"] = dataclasses.replace(self.own, shapes="")
        return dataclasses.replace(self, **changes)

    def value(self, name: str) -> Any:
        """Returns this task's value of a `name` of a search; None for an argument that it does not give."""
        if name in dict(self.arguments) or (names_factory(self.model) and name not in LEARNING_FIELDS):
            return dict(self.arguments).get(name)
        return self.num_layers if name == "layers" else getattr(self, name)

    def _fanouts_of(self, layers: int) -> tuple[int, ...]:
        """Returns the fanouts of so many layers, this task's own as far as they go."""
        if layers == self.num_layers:
            return self.fanouts
        usual = usual_fanouts(layers)
        if self.fanouts == usual_fanouts(self.num_layers):
            return usual
        return (*self.fanouts, *self.fanouts[-1:] * layers)[:layers]

    @property
    def factory_options(self) -> dict[str, Any]:
        """The further arguments of the factory: the fields that a shipped model takes, or your own's `arguments`."""
        if self.model not in SHIPPED:
            return dict(self.arguments)
        return {"hidden_channels": self.hidden_channels, "dropout": self.dropout, "layers": self.num_layers}

    @property
    def uses_pyg(self) -> bool:
        """Whether its layers import PyG modules; False for your own model, whose imports are unknown."""
        return not self.is_own and (self.model in _OF_PYG or self.norm != "none")

    @property
    def has_default_fanouts(self) -> bool:
        """Whether fanouts were left out. Equal ones that were given are another object, and are kept as they are."""
        return self.fanouts is _FANOUTS[1]

    @property
    def num_layers(self) -> int:
        """Layers of the model: one per hop."""
        return len(self.fanouts)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types, without the later ones (`later_defaults`) at their defaults."""
        fields = dataclasses.asdict(self) | {"fanouts": list(self.fanouts)}
        fields["arguments"] = dict(self.arguments) or ()
        for name in ("native", "edge_values", "edge_dim") if self.own is not None else ():  # added later, too
            if not fields["own"][name]:
                del fields["own"][name]
        later = self.later_defaults()
        return {name: value for name, value in fields.items() if name not in later or value != later[name]}

    @classmethod
    def later_defaults(cls) -> dict[str, Any]:
        """Returns the defaults, by name, of the fields that `to_dict` leaves out at their defaults.

        They were added after the first stored rows; leaving them out keeps the keys of those rows.
        """
        return {field.name: field.default for field in dataclasses.fields(cls) if field.name in _LATER}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the task of `to_dict`; unknown fields and other schema versions are refused."""
        check_names("Task", fields, {f.name for f in dataclasses.fields(cls)})
        parts: dict[str, Any] = {"fanouts": tuple(fields["fanouts"])} if "fanouts" in fields else {}
        if fields.get("own") is not None:
            parts["own"] = OwnModel.from_dict(fields["own"])
        return cls(**{**fields, **parts})

    def key(self) -> str:
        """Returns a short stable hash of the task."""
        return hash_of(self.to_dict())


def usual_fanouts(layers: int) -> tuple[int, ...]:
    """Returns the default fanouts of a model with `layers` layers, the seeds' hop first.

    Raises:
        ConfigError: `layers` is not an integer >= 1.
    """
    Whole(1, "2 is the default").check("layers", layers)
    known = _FANOUTS[min(layers, len(_FANOUTS)) - 1]
    return (*known, *known[-1:] * (layers - len(known)))  # another object than the default, which was not given


def names_factory(model: object) -> bool:
    """Returns whether `model` has the form package.module:function, which names a factory and no built-in model."""
    return isinstance(model, str) and _FACTORY.fullmatch(model) is not None
