"""`make_app`: the application that uvicorn serves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from a3gnn.errors import A3GNNError
from a3gnn.service.http.answers import PROBLEM_SCHEMA
from a3gnn.service.http.problems import LEFT, ProblemDetails, no_room
from a3gnn.service.http.routes import events, graphs, measurements, studies, suggestions, system, trainings
from a3gnn.service.http.security import OPEN, Guard
from a3gnn.service.jobs.database import disk_is_full
from a3gnn.service.jobs.home import Home
from a3gnn.service.pages import graph_pages, start, study_comparison, study_list, study_page, training_page, trash_page
from a3gnn.service.pages.frame import problem_answer
from a3gnn.service.service import Service
from a3gnn.service.settings import ServiceSettings
from a3gnn.service.studies.orders import named_faults
from a3gnn.version import PURPOSE, __version__

_ROUTERS = (
    *(study_list, study_comparison, start, graph_pages, study_page, system, graphs, studies, suggestions, events),
    *(trainings, training_page, trash_page, measurements),
)


def make_app(settings: ServiceSettings) -> FastAPI:
    """Returns the application, which opens the service at startup and closes it at shutdown; `state.guard` wraps it.

    Raises:
        A3GNNError: The folder or the database can't be used.
    """
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with service:
            yield

    app = FastAPI(
        title="a3gnn",
        version=__version__,
        summary=PURPOSE,
        docs_url=None,  # FastAPI's page loads scripts from other sites
        redoc_url=None,
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,  # generated clients name their functions by it
    )
    app.state.service = service
    for module in _ROUTERS:
        app.include_router(module.router)
    for kind in (ProblemDetails, A3GNNError, RequestValidationError, HTTPException, SQLAlchemyError, Exception):
        app.add_exception_handler(kind, _answer)
    app.add_exception_handler(ClientDisconnect, _no_answer)
    _describe(app, has_token=settings.has_token)
    app.state.guard = Guard(app, settings, service.sessions)
    return app


def _describe(app: FastAPI, *, has_token: bool) -> None:
    """Adds to the description of the API the schema of problems, and the token where requests need one."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        found = made()
        parts = found.setdefault("components", {})
        parts.setdefault("schemas", {})["Problem"] = PROBLEM_SCHEMA
        if has_token:
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": "--token"}}
            found["security"] = [{"token": []}]
            for path in OPEN:
                for route in found["paths"].get(path, {}).values():
                    route["security"] = []
        return found

    app.openapi = openapi  # type: ignore[method-assign]


async def _answer(request: Request, error: Exception) -> Response:
    """Turns `error` into a response."""
    service = request.app.state.service
    problem = _problem(error, service.home)
    problem.headers = dict(getattr(error, "headers", None) or {})
    if problem.status == 405:
        problem.headers["Allow"] = ", ".join(_methods(request))
    return problem_answer(problem, request.scope, has_token=service.settings.has_token)


async def _no_answer(request: Request, error: Exception) -> Response:
    """Ends a request whose client left before it had sent all of it."""
    return Response(status_code=LEFT)


def _methods(request: Request) -> list[str]:
    """Returns the methods that the request's path takes."""
    path = request.scope["path"]
    known = (*request.app.routes, *(route for module in _ROUTERS for route in module.router.routes))
    routes = [route for route in known if isinstance(route, Route) and route.path_regex.match(path)]
    routes = [route for route in routes if route.path == path] or routes  # /graphs/upload is no number of a graph
    found = {method for route in routes for method in route.methods or ()}
    return sorted(found | {"HEAD"} if "GET" in found else found)


def _problem(error: Exception, home: Home) -> ProblemDetails:
    """Turns `error` into a problem. The server's paths are shortened, except those that the request itself named."""
    if isinstance(error, ProblemDetails):
        return error
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        detail = f"{error.detail}; GET /docs lists the server's routes"
        return ProblemDetails(error.status_code, "http", detail)
    if isinstance(error, SQLAlchemyError):
        if disk_is_full(error, home.folder):
            return no_room("the database")
        return ProblemDetails(503, "store", "the database does not answer, so nothing was changed; ask again later")
    problem = ProblemDetails.of(error)
    problem.detail = home.places.shown(problem.detail)
    return problem


def _invalid(error: RequestValidationError) -> ProblemDetails:
    """Lists the faults of a request, each with its place, the rule and the value."""
    found = error.errors()
    line, faults = named_faults(found)
    unread = any(fault["type"] == "json_invalid" for fault in found)
    return ProblemDetails(400 if unread else 422, "request", f"{line}; GET /docs describes the requests", faults=faults)
