"""Pages for browsers: the studies, one study live, and the form that starts one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import Annotated, Any
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import ValidationError

from a3gnn.errors import A3GNNError
from a3gnn.page.html import BEGIN, MEDIA_TYPES, static_file, study_html
from a3gnn.service import study_files
from a3gnn.service.answers import PROBLEMS, Asked, Number, form_of, json_answer
from a3gnn.service.graph_shelf import KnownGraph
from a3gnn.service.home import JobFolder
from a3gnn.service.job import Job
from a3gnn.service.jobs import JobFilter
from a3gnn.service.orders import MOST, StudyOrder, Word
from a3gnn.service.problems import ProblemDetails
from a3gnn.service.routers.studies import add_training, resume_study, start
from a3gnn.service.service import Service
from a3gnn.task import MODELS
from a3gnn.units import count, format_duration

router = APIRouter(tags=["pages"], responses=PROBLEMS)
#: A page may run this server's scripts and send requests to this server only.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_ON_A_PAGE = 50
#: Graphs that the form lists on one page.
_GRAPHS_IN_FORM = 200
#: Lengths of a number in the form. All valid numbers are shorter; Python parses up to 4,300 digits.
_LENGTHS = range(1, 201)
#: The actions of the buttons above a study's page.
_ACTIONS: dict[str, Callable[[Service, int], object]] = {
    "stop": lambda service, study: service.stop("study", study),
    "resume": lambda service, study: resume_study(service, study),
    "train": lambda service, study: add_training(service, study),
    "delete": lambda service, study: service.delete("study", study),
}
#: Seconds for which a browser caches scripts and styles.
_KEPT_S = 3600
_PAGE = (
    BEGIN
    + """{head}<title>{title}</title>
<link rel="stylesheet" href="/static/study.css">
</head>
<body>
{navigation}
<main id="main">
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""
)
#: The links at the top of every page.
NAVIGATION = (
    '<nav aria-label="Server"><a href="/">Studies</a> <a href="/start">Start a study</a> <a href="/docs">API</a></nav>'
)
_PRIORITIES = {
    "time": "time: reaches the target accuracy soonest",
    "throughput": "throughput: the most epochs per second",
    "memory": "memory: the least memory",
    "accuracy": "accuracy: the best validation accuracy in the baseline's time",
    "balanced": "balanced: speed, memory and accuracy count equally",
}
#: The text fields of the form: name, label, help text and initial value.
_FIELDS = (
    ("memory_limit", "Memory limit", ("A size such as 4GiB, or baseline for the measured peak of the baseline. It "
                                      "limits GPU memory if there is a GPU. Empty sets no limit."), ""),
    ("budget", "Budget", "A duration such as 10min, or a number of trials.", "5min"),
    ("max_accuracy_drop", "Accuracy drop", "Most points of validation accuracy below the baseline.", "0.5"),
    ("name", "Name", "Name of the study. Default: the graph's name.", ""),
)  # fmt: skip


@router.get("/studies/{study}/views", summary="Show the content of a study's page")
def get_views(service: Asked, study: Number) -> Response:
    """Returns the content of a study's page as JSON (docs/reference/study_views.md)."""
    return json_answer(_views(service, *service.job("study", study)))


@router.get("/studies/{study}/page", summary="Show a study in a browser", response_class=HTMLResponse)
def get_page(service: Asked, study: Number) -> Response:
    """Returns the page of a study, which updates itself."""
    return _html(_study_page(service, study))


@router.post("/studies/{study}/page", include_in_schema=False)
async def act(service: Asked, request: Request, study: Number) -> Response:
    """Does what a button above the page says, and shows the page again."""
    asked = (await form_of(request, 4)).get("action", "")
    try:
        await to_thread.run_sync(_done, service, asked, study)
    except ProblemDetails as problem:
        wrong = problem.detail
        return _html(await to_thread.run_sync(_study_page, service, study, wrong), problem.status)
    return RedirectResponse("/" if asked == "delete" else f"/studies/{study}/page", 303)


@router.get("/studies/{study}/tuned.html", summary="Download the page", response_class=HTMLResponse)
def get_report(service: Asked, study: Number) -> Response:
    """Returns the present page of a study as one file without links to others, as `a3gnn report` writes it."""
    shown = {"Content-Disposition": f'attachment; filename="study-{study}.html"'}
    return HTMLResponse(study_html(_views(service, *service.job("study", study))), headers=shown)


@router.get("/static/{name}", include_in_schema=False)
def get_static(name: str) -> Response:
    """Gives a script or a style of the pages."""
    if name not in MEDIA_TYPES:
        raise ProblemDetails(404, "not-found", f"static file {name} does not exist")
    headers = {"Cache-Control": f"max-age={_KEPT_S}"}
    return Response(static_file(name), media_type=MEDIA_TYPES[name], headers=headers)


@router.get("/", include_in_schema=False)
def list_page(service: Asked, before: Annotated[int | None, Query(ge=1, le=MOST)] = None) -> Response:
    """Shows the studies."""
    studies = service.jobs.newest(JobFilter("study", before=before, limit=_ON_A_PAGE))
    names = service.graphs.names({study.graph for study in studies})
    return _html(studies_page(studies, names, studies[-1].id if len(studies) == _ON_A_PAGE else None))


@router.get("/start", include_in_schema=False)
def form_page(service: Asked, find: Word = "", before: Annotated[int | None, Query(ge=1, le=MOST)] = None) -> Response:
    """Shows the form, with the graphs whose name has `find` in it."""
    return _html(_form(service, {"find": find}, before=before))


@router.post("/start", include_in_schema=False)
async def start_by_form(service: Asked, request: Request) -> Response:
    """Starts the study of a filled form, and shows it; or says what is wrong with it."""
    form = await form_of(request, 50)
    given = {name: value.strip() for name, value in form.items() if value.strip()}
    try:
        order = StudyOrder(**_typed({name: value for name, value in given.items() if name != "find"}))
        job = await to_thread.run_sync(start, service, order)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    except (A3GNNError, ProblemDetails) as error:
        wrong = str(error)
    else:
        return RedirectResponse(f"/studies/{job.id}/page", 303)
    return _html(await to_thread.run_sync(_form, service, given, wrong), 422)


def _form(service: Service, given: dict[str, str], wrong: str = "", before: int | None = None) -> str:
    """Returns the form with its values, and one page of matching graphs: the newest, or those before a number."""
    graphs = service.graphs.newest(before, _GRAPHS_IN_FORM, given.get("find", "")[:200])
    older = graphs[-1].id if len(graphs) == _GRAPHS_IN_FORM else None
    chosen = _typed(given).get("graph")
    if isinstance(chosen, int) and 1 <= chosen <= MOST and all(graph.id != chosen for graph in graphs):
        with suppress(ProblemDetails):  # no such graph: the order reports that
            graphs.append(service.graphs.get(chosen))
    return start_page(graphs, given, wrong, older)


def _typed(given: dict[str, str]) -> dict[str, Any]:
    """Returns the form's values, typed as in a request. Text that is no number, or too long for one, stays text."""
    found: dict[str, Any] = dict(given)
    for name, kind in (("graph", int), ("max_accuracy_drop", float)):
        if len(given.get(name, "")) in _LENGTHS:
            try:
                found[name] = kind(found[name])
            except ValueError:
                continue  # the order reports that
    if given.get("budget", "").isdecimal() and len(given["budget"]) in _LENGTHS:
        found["budget"] = int(given["budget"])
    return found


def _done(service: Service, asked: str, study: int) -> None:
    """Runs the action of a button."""
    if asked not in _ACTIONS:
        raise ProblemDetails(422, "usage", f"action must be one of {', '.join(_ACTIONS)}, got {asked[:50]!r}")
    _ACTIONS[asked](service, study)


def _views(service: Service, job: Job, folder: JobFolder) -> dict[str, Any]:
    return study_files.views(folder, service.graphs.get(job.graph).source)


def _study_page(service: Service, study: int, wrong: str = "") -> str:
    job, folder = service.job("study", study)
    trainings = service.jobs.newest(JobFilter("training", study=study))
    bar = study_bar(job, trainings, (folder.run / "tuned.json").exists(), wrong)
    if not study_files.has_begun(folder):
        return waiting_page(job, bar)
    return study_html(_views(service, job, folder), live=f"/studies/{study}", before=bar)


def _html(text: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(text, status, {"Content-Security-Policy": _POLICY})


def studies_page(studies: Sequence[Job], graphs: Mapping[int, str], next_page: int | None) -> str:
    """Returns the page that lists studies.

    Args:
        studies: The studies of this page, newest first.
        graphs: The names of their graphs, by number.
        next_page: The next page's studies have smaller numbers than this; None on the last page.
    """
    rows = "".join(_row(study, graphs.get(study.graph, "")) for study in studies)
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("Study", "Status", "Graph", "Goal", "Trials", "Result"))
    table = (
        f'<div class="scroll"><table class="studies"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )
    body = table if studies else '<p>No study exists yet. <a href="/start">Start one</a>.</p>'
    if next_page is not None:
        body += f'<p><a href="/?before={next_page}">Older studies</a></p>'
    active = any(study.active for study in studies)
    return _page("Studies", body, '<meta http-equiv="refresh" content="10">\n' if active else "")


def start_page(
    graphs: Sequence[KnownGraph], given: Mapping[str, str], wrong: str = "", older: int | None = None
) -> str:
    """Returns the page with the form that starts a study.

    Args:
        graphs: The graphs to choose from.
        given: Values filled in before, by field. `find` is a part of the graphs' names.
        wrong: Error text about these values; "" at first.
        older: Further graphs have smaller numbers than this; None if there are no more.
    """
    chosen, find = given.get("graph", ""), given.get("find", "")
    known = "".join(_option(str(graph.id), graph.name, chosen) for graph in graphs)
    parts = [
        f'<p role="alert"><b>{escape(wrong)}</b></p>' if wrong else "",
        _finder(find, len(graphs), older),
        _select("graph", "Graph", "A registered graph.", f'<option value="">another graph</option>{known}'),
        _input("dataset", "Another graph", "A path below the data root, or synthetic:nodes=20000.",
               given.get("dataset", "")),
        _select("priority", "Priority", "Goal among the configurations that keep the limits.",
                "".join(_option(name, text, given.get("priority", "time")) for name, text in _PRIORITIES.items())),
        _select("model", "Model", "Model to train.",
                "".join(_option(name, name, given.get("model", MODELS[0])) for name in MODELS)),
        *(_input(name, label, text, given.get(name, first)) for name, label, text, first in _FIELDS),
    ]  # fmt: skip
    form = f'<form method="post" action="/start">{"".join(parts)}<p><button>Start</button></p></form>'
    return _page("Start a study", f'<form id="finder" method="get" action="/start"></form>{form}')


def _finder(find: str, found: int, older: int | None) -> str:
    """Returns the search field for graphs, which is a form of its own, and a link to older graphs."""
    shown = f'<input id="find" name="find" value="{escape(find)}" form="finder" aria-describedby="find-help">'
    link = f' <a href="/start?{escape(urlencode({"find": find, "before": older}))}">Older graphs</a>' if older else ""
    kept = f'<input type="hidden" name="find" value="{escape(find)}">' if find else ""
    named = f' with "{find}" in the name' if find else ""
    text = f"Choose from {count(found, 'graph')}{named} below{', or from older graphs' if older else ''}."
    control = f'<span>{shown} <button form="finder">Find</button>{link}{kept}</span>'
    return _field("find", "Part of a graph's name", text, control)


def study_bar(study: Job, trainings: Sequence[Job], has_chosen: bool, wrong: str = "") -> str:
    """Returns the bar above a study's page: its buttons, its downloads and its trainings.

    Args:
        study: The study.
        trainings: The trainings with its choice.
        has_chosen: Whether it has made a choice.
        wrong: Error text of the last action; "" if there is none.
    """
    path = f"/studies/{study.id}"
    names = {"stop": "Stop with the best so far"} if study.active else {"resume": "Continue", "delete": "Delete"}
    if has_chosen:
        names["train"] = "Train with the choice"
    buttons = "".join(f'<button name="action" value="{name}">{text}</button> ' for name, text in names.items())
    files = {"tuned.json": "the choice", "tuned.csv": "the front", "tuned.html": "this page"} if has_chosen else {}
    links = "".join(f'<a href="{path}/{name}" download>{name}: {text}</a> ' for name, text in files.items())
    made = "".join(f"<li>{_training(one)}</li>" for one in trainings)
    said = wrong or (study.error or {}).get("detail", "")
    return (
        f'{NAVIGATION}<form method="post" action="{path}/page" aria-label="Study">{buttons}{links}</form>'
        + (f'<p role="alert"><b>{escape(said)}</b></p>' if said else "")
        + (f"<ul>{made}</ul>" if made else "")
    )


def _training(training: Job) -> str:
    shown = training.to_dict()
    path, error = f"/trainings/{training.id}", (training.error or {}).get("detail")
    said = f"training {training.id} is {shown['status']}: {error or shown.get('line', '')}"
    links = ""
    if training.status == "finished":
        links = "".join(f' <a href="{path}/{name}" download>{name}</a>' for name in ("model.pt", "result.json"))
    return f"{escape(said)}{links}"


def waiting_page(study: Job, bar: str) -> str:
    """Returns the page of a study whose tune has not begun: it waits, compiles kernels, or has failed.

    Args:
        study: The study.
        bar: The HTML above the page's text.
    """
    shown = study.to_dict()
    line = escape(str(shown.get("line", "")))
    body = f'<p role="status">Study {study.id} is {escape(shown["status"])}.</p><p>{line}</p>'
    return _page(study.name, body, '<meta http-equiv="refresh" content="2">\n' if study.active else "", bar)


def _page(title: str, body: str, head: str = "", above: str = NAVIGATION) -> str:
    return _PAGE.format(title=escape(title), body=body, head=head, navigation=above)


def _row(study: Job, graph: str) -> str:
    shown, arguments = study.to_dict(), study.arguments
    since = "" if study.started is None else f", {format_duration((study.ended or time.time()) - study.started)}"
    error = (study.error or {}).get("detail", "")
    so_far = error or shown.get("chosen") or shown.get("line", "")
    cells = (
        f'<a href="/studies/{study.id}/page">{escape(study.name)}</a>',
        escape(f"{shown['status']}{since if study.status != 'queued' else ''}"),
        escape(graph),
        escape(f"{arguments['priority']}, {arguments['budget']}{_unit(arguments['budget'])}"),
        escape(str(shown.get("trials", ""))),
        escape(str(so_far)),
    )
    first, *rest = cells
    return f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'


def _unit(budget: object) -> str:
    return " trials" if isinstance(budget, int) else ""


def _option(value: str, text: str, chosen: str) -> str:
    mark = " selected" if value == chosen else ""
    return f'<option value="{escape(value)}"{mark}>{escape(text)}</option>'


def _select(name: str, label: str, text: str, options: str) -> str:
    return _field(
        name, label, text, f'<select id="{name}" name="{name}" aria-describedby="{name}-help">{options}</select>'
    )


def _input(name: str, label: str, text: str, value: str) -> str:
    shown = f'<input id="{name}" name="{name}" value="{escape(value)}" aria-describedby="{name}-help">'
    return _field(name, label, text, shown)


def _field(name: str, label: str, text: str, control: str) -> str:
    help_text = f'<span class="pale" id="{name}-help">{escape(text)}</span>'
    return f'<p class="field"><label for="{name}">{label}</label> {control} {help_text}</p>'
