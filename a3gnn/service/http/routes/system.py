"""The server's health, its metrics, the login of browsers, and the description of the API."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse, RedirectResponse

from a3gnn.service.http.answers import PROBLEMS, Asked, HealthAnswer, answers, form_of, json_answer
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.http.security import cookie_name, is_encrypted
from a3gnn.service.http.sessions import SESSION_S
from a3gnn.service.pages.frame import page, page_answer, render
from a3gnn.version import __version__

router = APIRouter(tags=["server"], responses=PROBLEMS)

_started = time.time()


@router.get("/livez", summary="Check that the server need not be restarted", responses=answers(HealthAnswer))
def livez(service: Asked) -> Response:
    """Answers 200 if the queue's thread runs, with or without a database: a restart would end running trials."""
    if not service.worker.is_alive():
        raise ProblemDetails(503, "queue", "the queue's thread has ended; restart the server, which loses nothing")
    return json_answer({"status": "ok", "version": __version__})


@router.get("/readyz", summary="Check that the server can take requests", responses=answers(HealthAnswer))
def readyz(service: Asked) -> Response:
    """Answers 200 if the database answers, too."""
    service.jobs.counts()
    return livez(service)


@router.get("/healthz", summary="The same, by its older name", responses=answers(HealthAnswer))
def healthz(service: Asked) -> Response:
    """Answers as `/readyz`."""
    return readyz(service)


@router.get("/metrics", summary="Show counters for Prometheus", response_class=PlainTextResponse)
def metrics(service: Asked, request: Request) -> Response:
    """Returns counters in Prometheus' text format."""
    guard = request.app.state.guard
    usage = resource.getrusage(resource.RUSAGE_SELF)
    jobs = [(f'kind="{kind}",status="{status}"', found) for (kind, status), found in service.jobs.counts().items()]
    requests = [(f'method="{method}",status="{status}"', n) for (method, status), n in sorted(guard.requests.items())]
    metrics: list[tuple[str, str, str, Sequence[tuple[str, float]] | float]] = [
        ("a3gnn_jobs", "gauge", "Studies and trainings.", jobs),
        ("a3gnn_measurements", "gauge", "Rows of the profile store.", service.profiles.count()),
        ("a3gnn_event_readers", "gauge", "Open event streams.", service.streams.readers),
        ("a3gnn_queue_failures_total", "counter", "Failed checks of the queue.", service.worker.failures),
        ("a3gnn_http_requests_total", "counter", "Answered requests.", requests),
        ("a3gnn_http_request_seconds_total", "counter", "Seconds of answering requests.", guard.seconds),
        ("process_cpu_seconds_total", "counter", "CPU seconds of the server.", usage.ru_utime + usage.ru_stime),
        ("process_max_resident_memory_bytes", "gauge", "Peak memory of the server.", usage.ru_maxrss * 1024),
        ("process_start_time_seconds", "gauge", "Start of the server in seconds since 1970.", _started),
    ]
    text = "".join(_metric(*one) for one in metrics)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _metric(name: str, kind: str, help_text: str, values: Sequence[tuple[str, float]] | float) -> str:
    values = values if isinstance(values, Sequence) else [("", values)]
    lines = [f"{name}{{{labels}}} {value}" if labels else f"{name} {value}" for labels, value in values]
    return "\n".join([f"# HELP {name} {help_text}", f"# TYPE {name} {kind}", *lines, ""])


@router.get("/login", include_in_schema=False)
def login_page(service: Asked, next: str = "/") -> Response:
    """Asks for the token, to lead to the page `next` then."""
    if not service.settings.has_token:
        return RedirectResponse(_own(next), 303)
    return _login(next)


@router.post("/login", include_in_schema=False)
async def login(service: Asked, request: Request) -> Response:
    """Begins a session of the browser, if the token is the server's."""
    form = await form_of(request, 4)
    following = _own(form.get("next", "/"))
    answer = RedirectResponse(following, 303)
    if not service.settings.has_token:
        return answer
    try:
        await request.app.state.guard.take_token(request.scope, form.get("token", ""))
    except ProblemDetails as problem:
        said = "The token is wrong." if problem.status == 401 else problem.detail
        return _login(following, said, problem)
    secret = await to_thread.run_sync(service.sessions.begin)
    answer.set_cookie(
        cookie_name(request.scope),
        secret,
        max_age=SESSION_S,
        httponly=True,
        samesite="lax",
        secure=is_encrypted(request.scope),
    )
    return answer


@router.post("/logout", include_in_schema=False)
async def logout(service: Asked, request: Request) -> Response:
    """Ends the session of the browser."""
    name = cookie_name(request.scope)
    await to_thread.run_sync(service.sessions.end, request.cookies.get(name, ""))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(name, httponly=True, samesite="lax", secure=is_encrypted(request.scope))
    return answer


def _own(following: str) -> str:
    """Returns `following` if it is a page of this server, else the list of studies."""
    is_path = following.startswith("/") and not following.startswith(("//", "/\\")) and following.isprintable()
    return following if is_path and not following.startswith(("/login", "/logout")) else "/"


def _login(following: str, said: str = "", problem: ProblemDetails | None = None) -> Response:
    text = render("login.html", title="Log in", wrong=said, following=_own(following))
    return page_answer(text) if problem is None else page_answer(text, problem.status, problem.headers)


@router.get("/docs", include_in_schema=False)
def docs(service: Asked, request: Request) -> Response:
    """Describes the API on one page without a script: what /openapi.json says."""
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, routes in request.app.openapi()["paths"].items():
        for method, route in routes.items():
            groups.setdefault(route["tags"][0], []).append((method, path, route))
    return page(service, "docs.html", title=f"The API of version {__version__}", groups=groups)
