"""Helpers of the routers: the service, forms, JSON answers, and the description of errors."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import Depends, Query, Request, Response
from fastapi import Path as InPath
from pydantic import BaseModel

from a3gnn.service.http.problems import MEDIA_TYPE, ProblemDetails
from a3gnn.service.service import Service
from a3gnn.service.studies.orders import MOST

#: A job's or graph's number in a path.
Number = Annotated[int, InPath(ge=1, le=MOST)]
#: Whether a job is removed for good, as a parameter of a route.
Forever = Annotated[bool, Query(description="Whether to remove its files now, not after a week in the trash.")]
#: Most bytes of a form. Guess: a megabyte of encoded characters would hold up other requests for .3 s.
_MOST_FORM = 1 << 16
_PROBLEM = {
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
#: Errors that every route may answer, for the description of the API.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request can't be read.", **_PROBLEM},
    401: {"description": "The token is missing.", **_PROBLEM},
    404: {"description": "The object does not exist.", **_PROBLEM},
    409: {"description": "The action is not possible now.", **_PROBLEM},
    413: {"description": "The request is too large.", **_PROBLEM},
    422: {"description": "A field of the request is not valid.", **_PROBLEM},
    429: {"description": "Too many requests or studies wait already.", **_PROBLEM},
    408: {"description": "The request's body takes too long.", **_PROBLEM},
    421: {"description": "The server is addressed by another name.", **_PROBLEM},
    403: {"description": "The request comes from a page of another site.", **_PROBLEM},
    500: {"description": "The server failed.", **_PROBLEM},
    501: {"description": "The server lacks a package.", **_PROBLEM},
    503: {"description": "The database does not answer, or the server is busy or ending.", **_PROBLEM},
    507: {"description": "The disk has no room.", **_PROBLEM},
}
#: The schema of a problem (RFC 9457).
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "The rule, the value and the remedy."},
    },
}


def answers(model: type[BaseModel], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the description of a route's answers, whose content is the same for each status; 200 if none is given."""
    texts = {200: "Done.", 201: "Created; `Location` has its path.", 202: "Accepted: it is not done yet."}
    return {status: {"model": model, "description": texts[status]} for status in statuses or (200,)}


#: The description of an answer that is an object of a page of the docs.
OBJECT: dict[int | str, dict[str, Any]] = {
    200: {"description": "Done.", "content": {"application/json": {"schema": {"type": "object"}}}}
}


def service_of(request: Request) -> Service:
    """Returns the service of the application that received `request`."""
    found: Service = request.app.state.service
    return found


#: The service, as a parameter of a route.
Asked = Annotated[Service, Depends(service_of)]


async def form_of(request: Request, most: int) -> dict[str, str]:
    """Returns the fields of the form in `request`, each with its first value.

    Raises:
        ProblemDetails: The form has more than `most` values, or too many bytes.
    """
    body = await request.body()
    if len(body) > _MOST_FORM:
        raise ProblemDetails(413, "too-large", f"a form must have at most {_MOST_FORM:,} bytes, got {len(body):,}")
    try:
        found = parse_qs(body.decode("utf-8", "replace"), max_num_fields=most)
    except ValueError as error:
        raise ProblemDetails(422, "usage", f"the form must have at most {most} fields, got more") from error
    return {name: values[0] for name, values in found.items()}


def json_answer(found: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Returns `found` as JSON."""
    return Response(json.dumps(found), status, headers, media_type="application/json")
