"""The server's pages from their templates, in templates/, and the page of an error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import jinja2
from fastapi.responses import HTMLResponse, Response
from starlette.datastructures import Headers
from starlette.types import Scope

from a3gnn.service.http.problems import MEDIA_TYPE, ProblemDetails
from a3gnn.service.service import Service

#: A page may run this server's scripts and send requests to this server only.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
#: Requests in errors, and what people do on pages in their place.
_REQUESTS = (
    (r"; GET /docs (lists the server's routes|describes the requests)", ""),
    (r"; GET /graphs lists the registered graphs", "; the form lists the registered graphs"),
    (r", and GET /graphs lists the registered graphs", ", and the form lists the registered graphs"),
    (r"GET /graphs lists the graphs", "the form lists the graphs"),
    (r"GET /studies lists the studies", "the list has all studies"),
    (r"GET /trainings lists the trainings", "the pages of studies list them"),
    (r"POST \.\.\./stop makes it choose the best so far, which GET \.\.\./front shows",
     "Stop makes it choose the best so far"),
    (r"POST \.\.\./resume continues after its last trial", "Continue goes on after its last trial"),
    (r"POST /\w+/\d+/restore takes it out", "the trash restores it"),
    (r"follow it with GET \.\.\./events", "its page follows it"),
)  # fmt: skip


def render(template: str, **values: Any) -> str:
    """Returns the HTML of a template; values are escaped, unless the template marks them as safe.

    Args:
        template: Its name.
        values: Its values. Those of a page are `title`, `has_token`, and `again_s`, after which the browser loads it
            again; without the last it does not.
    """
    return _templates().get_template(template).render(values)


def page_answer(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> HTMLResponse:
    """Returns the answer with a page, which may run this server's scripts only."""
    return HTMLResponse(text, status, {"Content-Security-Policy": POLICY, **(headers or {})})


def page(service: Service, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Returns the answer with a page from a template, in which `has_token` says whether people log in."""
    return page_answer(render(template, has_token=service.settings.has_token, **values), status)


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("a3gnn.service.pages"),
        autoescape=True,
        auto_reload=False,
        undefined=jinja2.ChainableUndefined,
    )


def wants_page(scope: Scope) -> bool:
    """Returns whether the request comes from a browser that shows pages."""
    return any("text/html" in value for value in Headers(scope=scope).getlist("accept"))


def problem_answer(problem: ProblemDetails, scope: Scope, *, has_token: bool) -> Response:
    """Returns the answer with `problem`: a page for browsers, else JSON."""
    if not wants_page(scope):
        return Response(json.dumps(problem.to_dict()), problem.status, problem.headers, media_type=MEDIA_TYPE)
    title = str(problem.to_dict()["title"])
    text = render("problem.html", title=title, detail=for_people(problem.detail), has_token=has_token)
    return page_answer(text, problem.status, problem.headers)


def for_people(detail: str) -> str:
    """Returns the text of an error with buttons and pages in the place of requests."""
    for request, words in _REQUESTS:
        detail = re.sub(request, words, detail)
    return detail
