"""The server's health, its metrics, the login of browsers, and the description of the API."""

from __future__ import annotations

import hmac
import resource
import time
from collections.abc import Sequence
from html import escape

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse

from a3gnn.service.answers import Asked, form_of, json_answer
from a3gnn.service.problems import ProblemDetails
from a3gnn.service.security import COOKIE
from a3gnn.version import __version__

router = APIRouter(tags=["server"])

_started = time.time()
#: Seconds for which a browser keeps the token: a month.
_COOKIE_S = 30 * 86400
_LOGIN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>a3gnn</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<form method="post" action="/login"><input name="username" value="a3gnn" autocomplete="username" hidden><label>Token
<input type="password" name="token" autocomplete="current-password" autofocus required></label>
<button>Log in</button></form></html>"""


@router.get("/healthz", summary="Check the server's health")
def healthz(service: Asked) -> Response:
    """Answers 200 if the database answers and the queue's thread runs."""
    service.jobs.counts()
    if not service.worker.is_alive():
        raise ProblemDetails(503, "queue", "the queue's thread has ended; restart the server, which loses nothing")
    return json_answer({"status": "ok", "version": __version__})


@router.get("/metrics", summary="Show counters for Prometheus", response_class=PlainTextResponse)
def metrics(service: Asked, request: Request) -> Response:
    """Returns counters in Prometheus' text format."""
    guard = request.app.state.guard
    usage = resource.getrusage(resource.RUSAGE_SELF)
    jobs = [(f'kind="{kind}",status="{status}"', found) for (kind, status), found in service.jobs.counts().items()]
    requests = [(f'method="{method}",status="{status}"', n) for (method, status), n in sorted(guard.requests.items())]
    text = "".join(
        (
            _metric("a3gnn_jobs", "gauge", "Studies and trainings.", jobs),
            _metric("a3gnn_measurements", "gauge", "Rows of the profile store.", [("", service.profiles.count())]),
            _metric("a3gnn_event_readers", "gauge", "Open event streams.", [("", service.streams.readers)]),
            _metric(
                "a3gnn_queue_failures_total", "counter", "Failed checks of the queue.", [("", service.worker.failures)]
            ),
            _metric("a3gnn_http_requests_total", "counter", "Answered requests.", requests),
            _metric(
                "a3gnn_http_request_seconds_total", "counter", "Seconds of answering requests.", [("", guard.seconds)]
            ),
            _metric(
                "process_cpu_seconds_total",
                "counter",
                "CPU seconds of the server.",
                [("", usage.ru_utime + usage.ru_stime)],
            ),
            _metric(
                "process_max_resident_memory_bytes",
                "gauge",
                "Peak memory of the server.",
                [("", usage.ru_maxrss * 1024)],
            ),
            _metric(
                "process_start_time_seconds", "gauge", "Start of the server in seconds since 1970.", [("", _started)]
            ),
        )
    )
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _metric(name: str, kind: str, help_text: str, values: Sequence[tuple[str, float]]) -> str:
    lines = [f"{name}{{{labels}}} {value}" if labels else f"{name} {value}" for labels, value in values]
    return "\n".join([f"# HELP {name} {help_text}", f"# TYPE {name} {kind}", *lines, ""])


@router.get("/login", include_in_schema=False)
def login_page() -> Response:
    """Asks for the token."""
    return HTMLResponse(_LOGIN)


@router.post("/login", include_in_schema=False)
async def login(service: Asked, request: Request) -> Response:
    """Has the browser keep the token, if it is the server's."""
    given = (await form_of(request, 4)).get("token", "")
    token = service.settings.token or ""
    if not hmac.compare_digest(given.encode(), token.encode()):
        return HTMLResponse(_LOGIN.replace("</form>", "</form><p role=alert>The token is wrong.</p>"), 401)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(COOKIE, token, max_age=_COOKIE_S, httponly=True, samesite="strict")
    return answer


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> Response:
    """Describes the API on one page without a script: what /openapi.json says."""
    parts = [f"<h1>a3gnn {escape(__version__)}</h1><p>Programs read <a href=/openapi.json>openapi.json</a>."]
    for path, routes in request.app.openapi()["paths"].items():
        for method, route in routes.items():
            names = ", ".join(one["name"] for one in route.get("parameters", ()))
            parts.append(
                f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2><p><b>{escape(route['summary'])}.</b> "
                f"{escape(route.get('description', ''))}" + (f"<p>Parameters: {escape(names)}" if names else "")
            )
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>a3gnn: the API</title>'
    head += '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
    return HTMLResponse(f"{head}{''.join(parts)}</html>")
