"""`make_app`: the application that uvicorn serves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from a3gnn.errors import A3GNNError
from a3gnn.service.answers import PROBLEM_SCHEMA
from a3gnn.service.home import Places
from a3gnn.service.problems import MEDIA_TYPE, ProblemDetails
from a3gnn.service.routers import events, graphs, measurements, pages, studies, suggestions, system, trainings
from a3gnn.service.security import Guard
from a3gnn.service.service import Service
from a3gnn.service.settings import ServiceSettings
from a3gnn.version import __version__

_ROUTERS = (pages, system, graphs, studies, suggestions, events, trainings, measurements)
#: Most faults of a request named in the answer. Guess.
_NAMED = 5


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
        summary="Auto-tuning for graph neural networks on machines that are too small for them",
        docs_url=None,  # FastAPI's page loads scripts from other sites
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    for module in _ROUTERS:
        app.include_router(module.router)
    for kind in (ProblemDetails, A3GNNError, RequestValidationError, HTTPException, SQLAlchemyError, Exception):
        app.add_exception_handler(kind, _answer)
    _describe_problems(app)
    app.state.guard = Guard(app, settings)
    return app


def _describe_problems(app: FastAPI) -> None:
    made = app.openapi

    def openapi() -> dict[str, Any]:
        found = made()
        found.setdefault("components", {}).setdefault("schemas", {})["Problem"] = PROBLEM_SCHEMA
        return found

    app.openapi = openapi  # type: ignore[method-assign]


async def _answer(request: Request, error: Exception) -> Response:
    """Turns `error` into a response."""
    problem = _problem(error, request.app.state.service.home.places)
    headers = getattr(error, "headers", None)
    return Response(json.dumps(problem.to_dict()), problem.status, headers, media_type=MEDIA_TYPE)


def _problem(error: Exception, places: Places) -> ProblemDetails:
    """Turns `error` into a problem. The server's paths are shortened, except those that the request itself named."""
    if isinstance(error, ProblemDetails):
        return error
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        detail = f"{error.detail}; GET /docs lists the server's routes"
        return ProblemDetails(error.status_code, "http", detail)
    if isinstance(error, SQLAlchemyError):
        return ProblemDetails(503, "store", "the database does not answer, so nothing was changed; ask again later")
    problem = ProblemDetails.of(error)
    problem.detail = places.shown(problem.detail)
    return problem


def _invalid(error: RequestValidationError) -> ProblemDetails:
    """Lists the faults of a request, each with its place, the rule and the value."""
    faults = []
    for fault in error.errors():
        place = ".".join(str(part) for part in fault["loc"] if part != "body") or "the body"
        faults.append({"where": place, "rule": fault["msg"], "got": repr(fault.get("input"))[:100]})
    named = "; ".join(f"{one['where']}: {one['rule']}, got {one['got']}" for one in faults[:_NAMED])
    more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
    unread = any(fault["type"] == "json_invalid" for fault in error.errors())
    return ProblemDetails(
        400 if unread else 422, "request", f"{named}{more}; GET /docs describes the requests", faults=faults[:_NAMED]
    )
