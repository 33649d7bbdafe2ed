"""The page with the form that starts a study, and the prediction beside it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import NoneType
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from a3gnn.checks import Size
from a3gnn.config import KNOBS, TrainConfig
from a3gnn.errors import A3GNNError, GraphError, UsageError
from a3gnn.metric import AUTO, METRIC_LABELS
from a3gnn.report.ratios import show_ratio, show_speed
from a3gnn.report.text import describe_config
from a3gnn.search import entry_of
from a3gnn.service.graphs.shelf import KnownGraph
from a3gnn.service.http.answers import PROBLEMS, Asked, form_of
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.http.routes.studies import recommended, start
from a3gnn.service.jobs.database import MOST, number_in
from a3gnn.service.jobs.jobs import MOST_ON_A_PAGE
from a3gnn.service.pages.frame import for_people, page_answer, render
from a3gnn.service.pages.graph_pages import facts
from a3gnn.service.service import Service
from a3gnn.service.settings import ServiceSettings
from a3gnn.service.studies.orders import MOST_FIELDS, Question, StudyOrder, Word, named_faults
from a3gnn.task import DECODERS, LOSSES, MODELS, NORMS, NUMBER_OPTIONS, OWN_LINKS, SHIPPED
from a3gnn.tuning.beliefs.recommendation import CorpusCount
from a3gnn.tuning.study.study import ENGINES
from a3gnn.units import count, format_seconds, format_size, parse_size

#: Lengths of a number in the form. All valid numbers are shorter; Python parses up to 4,300 digits.
_LENGTHS = range(1, 201)


class Field(NamedTuple):
    """A field of the form.

    Attributes:
        name: Its name in the order.
        help: A sentence below it.
        options: For a choice, values and texts.
        units: For a number with a choice of units, their values and texts; the first is the default.
    """

    name: str
    label: str
    help: str = ""
    options: tuple[tuple[str, str], ...] = ()
    unit: str = ""
    units: tuple[tuple[str, str], ...] = ()

    @property
    def value(self) -> str:
        """Its value in an empty form: the order's default, without the first of its units."""
        default = StudyOrder.model_fields[self.name].default
        if isinstance(default, bool):
            return "yes" if default else "no"
        text = "" if default in (None, {}) else f"{default:g}" if isinstance(default, float) else str(default)
        return text.removesuffix(self.units[0][0]) if self.units else text

    @property
    def inputmode(self) -> str:
        """The keyboard of phones: text, numeric or decimal."""
        kind = float if self.units else _TYPES.get(self.name)
        return "decimal" if kind is float else "numeric" if kind is int else "text"


class Group(NamedTuple):
    """A group of fields; one that is `folded` is closed while it is as in an empty form."""

    title: str
    fields: tuple[Field, ...]
    folded: bool = False


def _same(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, name) for name in names)


_SIZES = (("GiB", "GiB"), ("MiB", "MiB"))
_PRIORITIES = (
    ("time", "time: reaches the target accuracy soonest"),
    ("throughput", "throughput: the most epochs per second"),
    ("memory", "memory: the least memory"),
    ("accuracy", "accuracy: the best validation accuracy in the baseline's time"),
    ("quality", "quality: the best final validation accuracy, by another model, too"),
    ("balanced", "balanced: speed, memory and accuracy count equally"),
)
_BUDGETS = (("min", "minutes"), ("h", "hours"), ("trials", "trials"))
_METRICS = ((AUTO, "auto: fits the labels"), *METRIC_LABELS.items())
_GOAL = (
    Field("priority", "Priority", "Goal among the configurations that keep the limits.", _PRIORITIES),
    Field(
        "max_accuracy_drop", "Accuracy drop", "Most points of validation accuracy below the baseline.", unit="points"
    ),
)
_LIMITS = (
    Field(
        "budget",
        "Budget",
        "Time for all trials, or their number. The verification takes up to a few minutes more.",
        units=_BUDGETS,
    ),
    Field(
        "memory_limit",
        "Memory limit",
        "On GPU memory if there is a GPU, else on host memory. Empty sets no limit.",
        units=(*_SIZES, ("baseline", "as the baseline")),
    ),
    Field("host_memory_limit", "Host memory limit", "On a machine with a GPU. Empty sets no limit.", units=_SIZES),
)
_MODEL = (
    Field("model", "Model", "Model to train; the last two are for node types.", _same(*MODELS, *SHIPPED)),
    Field("hidden", "Hidden units", "Width of each hidden layer.", unit="units"),
    Field(
        "fanouts",
        "Fanouts",
        "Sampled neighbors per layer, from the seeds outward: 25, 10. -1 takes all. Empty takes the usual ones.",
    ),
    Field("layers", "Layers", "Empty: as many as fanouts."),
    Field("heads", "Attention heads", "Of gat, gatv2 and transformer."),
    Field("dropout", "Dropout", "Probability of dropping an activation."),
    Field("norm", "Normalization", "Between layers.", _same(*NORMS)),
    Field("residual", "Residual connections", "", _same("no", "yes", "linear")),
)
_TRAINING = (
    Field("metric", "Metric", "Judges validation and test nodes, or links.", _METRICS),
    Field("loss", "Loss", "Of numeric labels.", _same(*LOSSES)),
    Field("decoder", "Decoder", "Score of a link.", _same(*DECODERS)),
    Field("negatives", "Negatives", "What links compete with: binary:N, softmax:N or softmax."),
    Field("pair_history", "Pair history", "Last links of each end that show repeats, if links have times."),
    Field("own_links", "Own links", "In message passing of their mini-batch.", _same(*OWN_LINKS)),
    Field("class_weights", "Class weights", "Balanced: rare classes count more.", _same("none", "balanced")),
    Field("lr", "Learning rate", "Of Adam."),
    Field("weight_decay", "Weight decay", "L2 penalty of Adam."),
    Field(
        "lr_schedule",
        "Schedule of the learning rate",
        "How it changes over the epochs.",
        _same("constant", "linear", "cosine"),
    ),
    Field("lr_epochs", "Epochs of the schedule", "For linear and cosine.", unit="epochs"),
    Field("accuracy_epochs", "Epochs of the baseline", "Empty: until its accuracy stops improving.", unit="epochs"),
    Field(
        "target_accuracy",
        "Target",
        "Validation accuracy to reach, such as 0.87. Empty: the baseline's, less the accuracy drop.",
    ),
)
_SEARCH = (
    Field("references", "References", "Models without a graph network are trained first.", _same("yes", "no")),
    Field("engine", "Engine", "Chooses the trials.", _same(*ENGINES)),
    Field("seed", "Seed", "Decides every random choice."),
    Field("fix", "Fixed knobs", "Such as batch_size=512, cache_bytes=4MiB."),
    Field("ranges", "Restricted knobs", "Such as batch_size=256:4096."),
    Field("search", "Also search", "Of the model and training: layers=2,3 dropout=0.0:0.7 lr=1e-3:3e-2:log."),
)
GROUPS = (
    Group("Goal", _GOAL),
    Group("Limits", _LIMITS),
    Group("Model", _MODEL, folded=True),
    Group("Training", _TRAINING, folded=True),
    Group("Search", _SEARCH, folded=True),
    Group("Study", (Field("name", "Name", "Name of the study. Default: the graph's name."),)),
)
FIELDS = {field.name: field for group in GROUPS for field in group.fields}
#: Names in errors that are fields under another name.
_OTHER_NAMES = {"fixed": "fix", **{field: name for name, field in NUMBER_OPTIONS.items() if field != name}}
_FIRST_WORD = re.compile(r"\s*(?:a |an |the )?([a-z_]+)(?:\.[a-z_0-9.]+)?(?:=\S+)?(:|\b)")
_PARTS = re.compile(r"[,;\s]+")


_Order = TypeVar("_Order", bound=Question)


class FormError(Exception):
    """Errors of a filled form: texts by field, "" for those of no field."""

    def __init__(self, by_field: Mapping[str, str]) -> None:
        super().__init__("; ".join(by_field.values()))
        self.by_field = dict(by_field)


def order_of(given: Mapping[str, str]) -> StudyOrder:
    """Returns the order of a filled form.

    Args:
        given: The filled fields as text, without empty ones. `graph` or `dataset` name the graph.

    Raises:
        FormError: A field is not valid.
    """
    return _order(StudyOrder, given)


def question_of(given: Mapping[str, str]) -> Question:
    """Returns the question of a filled form for `recommend`; fields that only a study has are left out.

    Raises:
        FormError: A field is not valid.
    """
    own = {name: value for name, value in given.items() if name.removesuffix("_unit") in Question.model_fields}
    if own.get("memory_limit_unit") == "baseline" or own.get("memory_limit") == "baseline":
        own = {name: value for name, value in own.items() if not name.startswith("memory_limit")}  # it is measured
    return _order(Question, own)


def _order(kind: type[_Order], given: Mapping[str, str]) -> _Order:
    try:
        return kind(**_typed(given))
    except ValidationError as error:
        faults = named_faults(error.errors())[1]
        texts: dict[str, str] = {}
        for fault in faults:
            name = fault["where"].partition(".")[0]
            got = f", got {fault['got']}" if fault["got"] else ""
            remedy = f"; {fault['remedy']}" if fault["remedy"] else ""
            place = name if name in FIELDS or name in ("graph", "dataset") else ""
            texts.setdefault(place, f"{'' if place else name + ' '}{fault['rule']}{got}{remedy}")
        raise FormError(texts) from error


def errors_of(error: Exception, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the text of an error of a3gnn by the field that it names; by "" if it names none."""
    if isinstance(error, FormError):
        return error.by_field
    text = for_people(str(error))
    if "either graph" in text:
        return {"graph": text}
    found = _FIRST_WORD.match(text)
    others = _OTHER_NAMES | {"knob": "fix" if given.get("fix") else "ranges"}
    name = "" if found is None else others.get(found[1], found[1])
    if name in FIELDS:
        return {name: text[found.end() :].strip() if found is not None and found[2] == ":" else text}
    if isinstance(error, GraphError):
        return {"dataset" if given.get("dataset") else "graph": text}
    return {"": text}


def _typed(given: Mapping[str, str]) -> dict[str, Any]:
    """Returns the form's values, typed as in a request. Text that is no number, or too long for one, stays text."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name.endswith("_unit") and name.removesuffix("_unit") in FIELDS:
            continue
        found[name] = _with_unit(name, value, given.get(f"{name}_unit", "")) if name in _UNITS else value
        if name in _TYPES and len(value) in _LENGTHS:
            with suppress(ValueError, KeyError):  # the order reports that
                found[name] = _TYPES[name](value)
    if given.get("memory_limit_unit") == "baseline":
        found["memory_limit"] = "baseline"
    return found


def _with_unit(name: str, value: str, unit: str) -> Any:
    """Returns a number with the unit chosen for it. Text that has a unit already stays as it is."""
    if len(value) not in _LENGTHS:
        return value
    if unit in ("", "trials") or not re.fullmatch(r"[0-9.]+", value):
        return int(value) if name == "budget" and value.isascii() and value.isdecimal() else value
    return f"{value}{unit}"


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(part.partition("=")[0], part.partition("=")[2]) for part in _PARTS.split(text) if part]


def _value(knob: str, text: str) -> Any:
    """Returns a knob's value; sizes other than 0 have units."""
    is_size = any(known.name == knob and isinstance(known.domain, Size) for known in KNOBS)
    try:
        return parse_size(text, needs_unit=True) if is_size and text != "0" else text
    except UsageError as error:
        raise ValueError(text) from error


def _entry(text: str) -> dict[str, Any]:
    """Returns an entry of a search; text that is none is for the order to report."""
    try:
        return entry_of(text)
    except UsageError as error:
        raise ValueError(text) from error


def _numbers() -> Iterator[tuple[str, Callable[[str], Any]]]:
    """Yields the order's fields that are an integer or a number, or may be left out, with what reads them."""
    for name, field in StudyOrder.model_fields.items():
        kinds = {get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in get_args(field.annotation)}
        for kind in (int, float):
            if field.annotation is kind or kinds == {kind, NoneType}:
                yield name, kind


_TYPES: dict[str, Callable[[str], Any]] = {
    **dict(_numbers()),
    "fanouts": lambda text: [int(part) for part in _PARTS.split(text) if part],
    **dict.fromkeys(("residual", "references"), lambda text: {"yes": True, "no": False}.get(text, text)),
    "fix": lambda text: {name: _value(name, value) for name, value in _pairs(text)},
    "search": lambda text: {name: one for part in re.split(r"[;\s]+", text) for name, one in _entry(part).items()},
    "ranges": lambda text: {name: [_value(name, end) for end in value.split(":")] for name, value in _pairs(text)},
}
_UNITS = tuple(field.name for field in FIELDS.values() if field.units)


def is_changed(group: Group, given: Mapping[str, str], errors: Mapping[str, str]) -> bool:
    """Returns whether a group has a value other than in an empty form, or an error, so that it must be seen."""
    return any(given.get(field.name, field.value) != field.value or field.name in errors for field in group.fields)


def read_form(form: Mapping[str, str]) -> dict[str, str]:
    """Returns the filled fields of a form, without empty ones and without units of empty numbers."""
    given = {name: value.strip() for name, value in form.items() if value.strip()}
    return {
        name: value
        for name, value in given.items()
        if not name.endswith("_unit") or name.removesuffix("_unit") in given or value == "baseline"
    }


router = APIRouter(tags=["pages"], responses=PROBLEMS)


@router.get("/start", include_in_schema=False)
def form_page(
    service: Asked,
    find: Word = "",
    before: Annotated[int | None, Query(ge=1, le=MOST)] = None,
    graph: Annotated[int | None, Query(ge=1, le=MOST)] = None,
    dataset: Word = "",
) -> Response:
    """Shows the form, with the graphs whose name has `find` in it."""
    given = {"find": find, "graph": "" if graph is None else str(graph), "dataset": dataset}
    return page_answer(_form(service, {name: value for name, value in given.items() if value}, before=before))


@router.post("/start", include_in_schema=False)
async def start_by_form(service: Asked, request: Request) -> Response:
    """Starts the study of a filled form, and shows it; or shows what is wrong with its fields.

    The same form again, as by a double click, shows the same study; one with other values starts another.
    """
    given = read_form(await form_of(request, MOST_FIELDS))
    key = given.pop("idempotency-key", "")
    try:
        order = order_of({name: value for name, value in given.items() if name != "find"})
        job = await to_thread.run_sync(start, service, order, key and f"{key} {sorted(given.items())}")
    except (FormError, A3GNNError, ProblemDetails) as error:
        errors = errors_of(error, given)
        return page_answer(await to_thread.run_sync(_form, service, given, errors), 422)
    return RedirectResponse(f"/studies/{job.id}/page", 303)


@router.post("/start/prediction", include_in_schema=False)
async def predict_by_form(service: Asked, request: Request) -> Response:
    """Shows the form again, with what is predicted for its fields."""
    given = read_form(await form_of(request, MOST_FIELDS))
    found = await to_thread.run_sync(_predicted, service, given)
    return page_answer(await to_thread.run_sync(_form, service, given, {}, found))


class Prediction(NamedTuple):
    """What is predicted for a form.

    Attributes:
        problem: Why nothing is; "" if it is.
        config: The configuration in words.
        figures: Names, predictions and their 90 % intervals, as text.
        notes: What the predictions rest on, and what they can't know.
    """

    problem: str
    config: str = ""
    figures: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()


def _predicted(service: Service, given: Mapping[str, str]) -> Prediction:
    try:
        return _described(recommended(service, question_of(given)))
    except (FormError, A3GNNError, ProblemDetails) as error:
        errors = errors_of(error, given)
        named = (f"{FIELDS[name].label}: {text}" if name in FIELDS else text for name, text in errors.items())
        return Prediction("; ".join(named))


def _described(found: Mapping[str, Any]) -> Prediction:
    """Returns the JSON of a recommendation in words."""
    best, config = found["predicted"], TrainConfig.from_dict(found["config"])
    memory = "peak_device_bytes" if best["peak_device_bytes"] else "peak_host_bytes"
    names = {"peak_device_bytes": "GPU memory", "peak_host_bytes": "Host memory"}
    shown = [
        ("Epochs per second", best["throughput_epochs_per_s"], show_speed),
        ("Over the baseline", best["throughput_over_default"], show_ratio),
        ("Seconds to the target", best["seconds_to_accuracy"], format_seconds),
        (names[memory], best[memory], format_size),
        ("Points of accuracy beside the baseline", best["accuracy_beside_default"], "{:+.1f}".format),
    ]
    figures = tuple(
        (name, form(value["mean"]), f"{form(value['low'])} to {form(value['high'])}")
        for name, value, form in shown
        if value is not None
    )
    corpus = CorpusCount(**found["corpus"])
    return Prediction("", describe_config(config), figures, (corpus.describe(), *found["unknown"]))


def _form(
    service: Service,
    given: Mapping[str, str],
    errors: Mapping[str, str] | None = None,
    prediction: Prediction | None = None,
    before: int | None = None,
) -> str:
    """Returns the form with its values, and one page of matching graphs: the newest, or those before a number."""
    graphs = service.graphs.newest(before, MOST_ON_A_PAGE, given.get("find", "")[:200])
    older = graphs[-1].id if len(graphs) == MOST_ON_A_PAGE else None
    chosen = number_in(given.get("graph", ""))
    if chosen is not None and all(one.id != chosen for one in graphs):
        with suppress(ProblemDetails):  # no such graph: the order reports that
            graphs.append(service.graphs.get(chosen))
    return start_page(service.settings, graphs, given, errors, older, prediction)


def start_page(
    settings: ServiceSettings,
    graphs: Sequence[KnownGraph],
    given: Mapping[str, str],
    errors: Mapping[str, str] | None = None,
    older: int | None = None,
    prediction: Prediction | None = None,
) -> str:
    """Returns the page with the form that starts a study.

    Args:
        settings: The server's settings.
        graphs: The graphs to choose from.
        given: Values filled in before, by field. `find` is a part of the graphs' names.
        errors: Error texts of these values by field, and by "" those of no field.
        older: Further graphs have smaller numbers than this; None if there are no more.
        prediction: What is predicted for these values; None if nobody asked.
    """
    errors, find = errors or {}, given.get("find", "")
    named = f' with "{find}" in the name' if find else ""
    found = f"Choose from {count(len(graphs), 'graph')}{named} below{', or from older graphs' if older else ''}."
    labels = {"graph": "Graph", "dataset": "Another graph"} | {name: field.label for name, field in FIELDS.items()}
    return render(
        "start.html",
        title="New study",
        key=secrets.token_hex(16),
        errors=errors,
        labels=labels,
        given=given,
        find=find,
        found=found,
        older=urlencode({"find": find, "before": older}) if older else "",
        graphs=[(str(graph.id), graph.name, facts(graph)) for graph in graphs],
        groups=[(group, not group.folded or is_changed(group, given, errors)) for group in GROUPS],
        prediction=prediction,
        has_token=settings.has_token,
        has_root=settings.data_root is not None,
        most=format_size(settings.max_upload_bytes),
    )
