"""The page with the form that starts a study, and the prediction beside it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError
from a3gnn.report.ratios import show_ratio, show_speed
from a3gnn.report.text import describe_config
from a3gnn.service.graphs.shelf import KnownGraph
from a3gnn.service.http.answers import PROBLEMS, Asked, form_of
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.http.routes.studies import recommended, start
from a3gnn.service.jobs.database import MOST, number_in
from a3gnn.service.jobs.jobs import MOST_ON_A_PAGE
from a3gnn.service.pages.frame import page_answer, render
from a3gnn.service.pages.graph_pages import facts
from a3gnn.service.pages.study_form import (
    FIELDS,
    GROUPS,
    FormError,
    errors_of,
    is_changed,
    order_of,
    question_of,
    read_form,
)
from a3gnn.service.service import Service
from a3gnn.service.settings import ServiceSettings
from a3gnn.service.studies.orders import MOST_FIELDS, Word
from a3gnn.tuning.beliefs.recommendation import CorpusCount
from a3gnn.units import count, format_seconds, format_size

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
