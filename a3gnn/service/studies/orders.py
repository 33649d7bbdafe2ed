"""Bodies of requests: pydantic checks types and sizes, a3gnn's own types the meaning; and their faults in words."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from a3gnn.errors import UsageError
from a3gnn.metric import AUTO, checked_metric
from a3gnn.service.jobs.database import MOST
from a3gnn.service.settings import ServiceSettings
from a3gnn.task import MODELS, NUMBER_OPTIONS, Residual, Task, names_factory, usual_fanouts
from a3gnn.tuning.study.arguments import make_request
from a3gnn.units import MOST_FAULTS

#: Text of one line, without control characters.
Word = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
GraphNumber = Annotated[int, Field(ge=1, le=MOST)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, le=MOST)]
Bytes = Annotated[int, Field(ge=1, le=2**62)]
_SIZE = "must be a size such as 4GiB, a number of bytes, or null"
_VALUE = "must have values that are numbers, text, true, false or null"
#: The rule of each field that takes several types of values, for errors.
UNIONS = {
    "memory_limit": _SIZE,
    "host_memory_limit": _SIZE,
    "budget": "must be a duration such as 10min, or a number of trials from 1 to 1,000,000",
    "fix": _VALUE,
    "ranges": _VALUE,
    "search": "must have lists of values, or ranges with low and high",
    "residual": "must be true, false or linear",
}
#: The parts of a value's union that pydantic adds to the place of a fault.
_ALTERNATIVES = ("int", "float", "bool", "constrained-str", "constrained-int", "none")
#: The rule for each of pydantic's types of faults, with the names of its limits.
_OBJECT, _WHOLE, _NUMBER = "must be a JSON object", "must be an integer", "must be a number"
_RULES = {
    "missing": "must be given",
    "extra_forbidden": "is no field of this request",
    "json_invalid": "must be JSON: {error}",
    "model_attributes_type": _OBJECT,
    "model_type": _OBJECT,
    "dict_type": _OBJECT,
    "list_type": "must be a list",
    "string_type": "must be text",
    "string_unicode": "must be text",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "none_required": "must be null",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than_equal": "must be at most {le:,}",
    "greater_than": "must be above {gt:,}",
    "less_than": "must be below {lt:,}",
    "string_too_long": "must have at most {max_length:,} characters",
    "string_too_short": "must have at least {min_length:,} characters",
    "string_pattern_mismatch": "must be one line without control characters",
    "too_long": "must have at most {max_length:,} values",
    "too_short": "must have at least {min_length:,} values",
    "literal_error": "must be {expected}",
}
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80
_REPR.maxdict = _REPR.maxlist = 4
_REPR.maxlevel = 3
#: Most fields of a form, or of an object in a request: more than any has. Each costs time, even if it is refused.
MOST_FIELDS = 64


def _as_json(found: Any) -> Any:
    """Returns `found` with numbers such as 5.0 as integers, which they are in JSON Schema, as far as lists below."""
    if isinstance(found, list):
        return [int(one) if isinstance(one, float) and one.is_integer() else one for one in found]
    return int(found) if isinstance(found, float) and found.is_integer() else found


def _few(found: Any) -> Any:
    """Returns `found`, unless it is an object with too many fields: pydantic would check each before it counts them."""
    if isinstance(found, dict) and len(found) > MOST_FIELDS:
        raise ValueError(f"must have at most {MOST_FIELDS} fields")
    return found


#: A knob's value.
Value = bool | Annotated[int, Field(ge=-(2**62), le=2**62)] | Annotated[float, Field(ge=-1e15, le=1e15)] | Word | None


class _Order(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, found: Any) -> Any:
        found = _few(found)
        return {name: _as_json(value) for name, value in found.items()} if isinstance(found, dict) else found


Number = Annotated[int, Field(ge=-(2**62), le=2**62)] | Annotated[float, Field(ge=-1e15, le=1e15)]
Values = Annotated[list[Value], Field(min_length=1, max_length=MOST_FIELDS)]


class SearchEntry(_Order):
    """Values of one name of a search: a list of them, or a range."""

    values: Values | None = None
    low: Number | None = None
    high: Number | None = None
    log: bool = False
    step: Number | None = None
    when: Annotated[dict[Word, Values | Value], BeforeValidator(_few)] = {}


class GraphOrder(_Order):
    """A graph that the server can open."""

    dataset: Annotated[
        Word,
        Field(
            min_length=1,
            description="A path below the data root (an .npz file or a converted folder), or synthetic:KEY=VALUE,...",
            examples=["graph.npz", "synthetic:nodes=20000"],
        ),
    ]
    name: Word = ""


class Question(_Order):
    """What a recommendation is about, and a study."""

    graph: Annotated[GraphNumber | None, Field(description="The number of a registered graph.")] = None
    dataset: Annotated[
        Word | None, Field(description="Instead of graph: a dataset as in POST /graphs, which is registered.")
    ] = None
    priority: Annotated[Word, Field(description="time, throughput, memory, accuracy, balanced, quality, or T,M,A")] = (
        "time"
    )
    memory_limit: Annotated[
        Bytes | Word | None, Field(description="GPU memory limit, or host memory limit without a GPU, such as 4GiB.")
    ] = None
    host_memory_limit: Annotated[
        Bytes | Word | None, Field(description="Host memory limit on a machine with a GPU.")
    ] = None
    max_accuracy_drop: Annotated[float, Field(ge=0, le=100, description="Most points below the baseline.")] = 0.5
    fix: Annotated[
        dict[Word, Value],
        BeforeValidator(_few),
        Field(max_length=MOST_FIELDS, description="Knobs fixed at a value.", examples=[{"batch_size": 512}]),
    ] = {}
    ranges: Annotated[
        dict[Word, Annotated[list[Value], Field(min_length=2, max_length=2)]],
        BeforeValidator(_few),
        Field(
            max_length=MOST_FIELDS, description="Knobs restricted to [low, high].", examples=[{"batch_size": [64, 512]}]
        ),
    ] = {}
    seed: Seed = 0
    model: Word = "sage"
    layers: Annotated[int | None, Field(ge=1, le=32)] = None
    fanouts: Annotated[list[Annotated[int, Field(ge=-1, le=1_000_000)]] | None, Field(min_length=1, max_length=32)] = (
        None
    )
    hidden: Annotated[int, Field(ge=1, le=65_536)] = 256
    lr: Annotated[float, Field(gt=0, le=1e15, description="Learning rate of Adam.")] = 0.003
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    weight_decay: Annotated[float, Field(ge=0, le=1e15)] = 0.0
    heads: Annotated[int, Field(ge=1, le=65_536, description="Attention heads.")] = 4
    norm: Word = "none"
    residual: Residual = False
    lr_schedule: Word = "constant"
    lr_epochs: Count | None = None
    loss: Word = "mse"
    class_weights: Word = "none"
    decoder: Annotated[
        Word, Field(description="Score of a link, for a dataset target:SOURCE,RELATION,TARGET:PATH.")
    ] = "dot"
    negatives: Annotated[Word, Field(description="Loss of links: binary:N, softmax:N or softmax.")] = "binary:1"
    own_links: Word = "shown"
    pair_history: Annotated[int, Field(ge=0, le=1_000_000)] = Task().pair_history
    metric: Word = AUTO

    def task(self, settings: ServiceSettings) -> Task:
        """Returns the task to train.

        Raises:
            UsageError: A field is not valid, or the server does not allow this model.
        """
        if names_factory(self.model) and self.model not in settings.allowed_models:
            raise UsageError(
                f"model must be one of {', '.join(MODELS)} here, got {self.model!r}; a model of your own needs a3gnn "
                "serve --allow-model, because importing it runs its code"
            )
        if self.layers is not None and self.fanouts is not None and len(self.fanouts) != self.layers:
            raise UsageError(
                f"fanouts must have a number for each of layers, got {len(self.fanouts)} and {self.layers}; leave out "
                "fanouts or layers"
            )
        fanouts = tuple(self.fanouts or ()) or (Task().fanouts if self.layers is None else usual_fanouts(self.layers))
        same = ("model", "norm", "residual", "lr_schedule", "lr_epochs", "seed", "class_weights", "loss", "decoder")
        fields = NUMBER_OPTIONS | {name: name for name in (*same, "negatives", "own_links", "pair_history")}
        return Task(fanouts=fanouts, **{field: getattr(self, name) for name, field in fields.items()})

    def arguments(self, settings: ServiceSettings) -> dict[str, Any]:
        """Returns the arguments of `recommend`, as JSON types, without the graph.

        Raises:
            UsageError: A field is not valid.
        """
        return self._checked(settings, budget=1, engine="ppo")

    def _checked(self, settings: ServiceSettings, **more: Any) -> dict[str, Any]:
        own = ("priority", "memory_limit", "host_memory_limit", "max_accuracy_drop", "fix", "ranges", "seed")
        asked = {name: getattr(self, name) for name in own} | more
        task = self.task(settings)
        asked["host_memory_limit"] = asked["host_memory_limit"] or settings.max_memory_bytes
        settings.check(make_request(task=task, **asked))
        return {**asked, "task": task.to_dict(), "metric": checked_metric(self.metric)}


class StudyOrder(Question):
    """A study that is to be made: what `a3gnn tune` takes."""

    name: Word = ""
    budget: Annotated[Count | Word, Field(description="A duration such as 10min, or a number of trials.")] = "5min"
    engine: Word = "ppo"
    trainer: Annotated[
        Literal["server", "client"],
        Field(
            description="client: POST .../suggestions returns trials, and .../trials/N/complete takes their figures."
        ),
    ] = "server"
    accuracy_epochs: Count | None = None
    target_accuracy: Annotated[float | None, Field(ge=-1e15, le=1e15)] = None
    search: Annotated[
        dict[Word, Values | SearchEntry],
        BeforeValidator(_few),
        Field(
            max_length=MOST_FIELDS,
            description="Fields of the model or of training to try, too: lists of values, or ranges.",
            examples=[{"layers": [2, 3], "lr": {"low": 0.001, "high": 0.03, "log": True}}],
        ),
    ] = {}
    references: Annotated[bool, Field(description="Train models of nodes without a graph network first.")] = True

    def arguments(self, settings: ServiceSettings) -> dict[str, Any]:
        """Returns the arguments of `tune`, as JSON types, without the graph and without the places it writes to.

        Raises:
            UsageError: A field is not valid.
        """
        own = ("budget", "engine", "accuracy_epochs", "target_accuracy", "references")
        search = {
            name: one if isinstance(one, list) else one.model_dump(exclude_defaults=True)
            for name, one in self.search.items()
        }
        checked = self._checked(settings, search=search, **{name: getattr(self, name) for name in own})
        return {**checked, "trainer": self.trainer}


class TellOrder(_Order):
    """What a suggested trial reached, or why it failed."""

    throughput_epochs_per_s: Annotated[
        list[Annotated[float, Field(gt=0, le=1e12)]],
        Field(max_length=1000, fail_fast=True, description="Speed of each repetition, without evaluation."),
    ] = []
    peak_host_bytes: Annotated[int, Field(ge=0, le=2**62)] = 0
    peak_device_bytes: Annotated[int, Field(ge=0, le=2**62)] = 0
    setup_seconds: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    batches_per_epoch: Annotated[Count | None, Field(description="Default: by the batch size.")] = None
    batches: Annotated[
        list[Annotated[int, Field(ge=1, le=2**40)]],
        Field(
            max_length=10_000,
            fail_fast=True,
            description="Learning curve: mini-batches before each evaluation, ascending.",
        ),
    ] = []
    val_accuracy: Annotated[
        list[Annotated[float, Field(ge=-1e15, le=1e15)]],
        Field(
            max_length=10_000,
            fail_fast=True,
            description="Learning curve: validation quality at each evaluation, in [0, 1].",
        ),
    ] = []
    test_accuracy: Annotated[float | None, Field(ge=-1e15, le=1e15)] = None
    failure: Literal["out_of_memory", "timeout", "invalid", "crashed"] | None = None
    detail: Annotated[str, Field(max_length=4000)] = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.failure is None and not (self.throughput_epochs_per_s and self.peak_host_bytes):
            raise ValueError("a trial without a failure must have throughput_epochs_per_s and peak_host_bytes")
        if len(self.batches) != len(self.val_accuracy):
            raise ValueError("batches and val_accuracy must have the same length")
        if any(later <= earlier for earlier, later in pairwise(self.batches)):
            raise ValueError("batches must ascend")
        return self


class ResumeOrder(_Order):
    """How a study goes on."""

    budget: Annotated[Count | Word | None, Field(description="A larger budget. Default: the rest of the old one.")] = (
        None
    )


class PickOrder(_Order):
    """Another choice among a study's measurements; fields that are left out stay as in the study."""

    priority: Word | None = None
    memory_limit: Annotated[Bytes | Word | None, Field(description="A size, baseline, or none.")] = None
    host_memory_limit: Annotated[Bytes | Word | None, Field(description="A size, baseline, or none.")] = None
    max_accuracy_drop: Annotated[float | None, Field(ge=-100, le=100)] = None
    target_accuracy: Annotated[float | None, Field(ge=-1e15, le=1e15)] = None


class TrainOnOrder(_Order):
    """How a training goes on."""

    epochs: Annotated[Count | None, Field(description="Most epochs, earlier ones included.")] = None


class TrainOrder(_Order):
    """A training with the choice of a study."""

    name: Word = ""
    epochs: Count | None = None
    patience: Count | None = None
    until_target: bool = False


def named_faults(faults: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, str]]]:
    """Returns one line with the first faults, and these as objects: `where`, `rule`, `got` and `remedy`.

    Args:
        faults: As pydantic lists them. A value that fits none of several types has a fault for each.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for fault in faults:
        place = "the body" if fault["type"] == "json_invalid" else _place(fault["loc"])
        groups.setdefault(place, []).append(fault)
    named = [_described(place, found) for place, found in list(groups.items())[:MOST_FAULTS]]
    line = "; ".join(map(_line, named))
    more = len(groups) - len(named)
    return f"{line}{f'; and {more} more' if more else ''}", named


def _line(fault: Mapping[str, str]) -> str:
    where = f"{fault['where']} " if fault["rule"].startswith(("must ", "is ")) else ""
    got = f", got {fault['got']}" if fault["got"] else ""
    return f"{where}{fault['rule']}{got}{fault['remedy'] and '; '}{fault['remedy']}"


def _described(place: str, faults: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    first, field = faults[0], place.partition(".")[0]
    rules = list(dict.fromkeys(_rule(fault) for fault in faults))
    rule = rules[0] if len(rules) == 1 else UNIONS.get(field) or " or ".join(rules)
    got = "" if first["type"] in ("missing", "json_invalid") else _REPR.repr(first.get("input"))
    return {"where": place, "rule": rule, "got": got, "remedy": _remedy(first["type"], field)}


def _remedy(kind: str, field: str) -> str:
    if kind != "extra_forbidden":
        return ""
    near = difflib.get_close_matches(field, StudyOrder.model_fields, 1)
    return f"did you mean {near[0]!r}?" if near else "leave it out"


def _place(parts: Sequence[int | str]) -> str:
    """Returns the place of a fault below the body or the query, without the types of a union."""
    named = [str(part) for part in parts if part not in ("body", "query", "path", "header")]
    kept = [part for i, part in enumerate(named) if i == 0 or not _is_alternative(part)]
    return ".".join(kept) or "the body"


def _is_alternative(part: str) -> bool:
    return part in _ALTERNATIVES or part.startswith(
        ("constrained-", "literal[", "list[", "dict[", "function-", "[key]")
    )


def _rule(fault: Mapping[str, Any]) -> str:
    """Returns the rule that a value breaks, as words that follow the field's name."""
    context = fault.get("ctx", {})
    if fault["type"] == "value_error" and "error" in context:
        return str(context["error"])
    try:
        whole = {
            name: int(one) if isinstance(one, float) and one.is_integer() else one for name, one in context.items()
        }
        return _RULES[fault["type"]].format(**whole)
    except KeyError:
        return f"is not valid ({fault['msg'][:1].lower()}{fault['msg'][1:]})"
