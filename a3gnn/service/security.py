"""`Guard`: checks the host, origin, token and size of every request first."""

from __future__ import annotations

import hmac
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import cookie_parser

from a3gnn.addresses import ANY_ADDRESS, LOOPBACK
from a3gnn.service.problems import MEDIA_TYPE, ProblemDetails
from a3gnn.service.settings import ServiceSettings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Most bytes of a request that is no upload.
MAX_BODY_BYTES = 1 << 20
#: Paths that take uploads. Their handlers limit the size.
UPLOADS = ("/graphs/upload", "/profiles")
#: Name of the cookie that holds the token.
COOKIE = "a3gnn_token"
_SAFE = ("GET", "HEAD", "OPTIONS")
#: Paths that answer without a token: the health check, and the page that takes the token.
_OPEN = ("/healthz", "/login")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, browsers send our own forms with the origin "null"
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """Wraps an ASGI application.

    Args:
        app: The application.
        settings: The token and the names by which the server may be addressed.

    Attributes:
        requests: Number of requests by method and status.
        seconds: Total time of all requests.
    """

    def __init__(self, app: App, settings: ServiceSettings) -> None:
        self._app, self._token = app, settings.token
        names = {settings.host, *settings.allowed_hosts} - ANY_ADDRESS
        self._hosts = {name.lower().strip("[]") for name in names | LOOPBACK}
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or hands it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, body = time.perf_counter(), 500, _Body(receive, scope["method"] in _SAFE)

        async def checked(message: MutableMapping[str, Any]) -> None:
            if not body.too_large:
                await noted(message)
            elif message["type"] == "http.response.start":  # replaces the application's own answer to the error
                await _answer(_too_large(), noted)

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                have = {name for name, _ in message.get("headers", ())}
                message["headers"] = [
                    *message.get("headers", ()),
                    *(one for one in _HEADERS if one[0] not in have),
                ]
            await send(message)

        try:
            self._check(scope)
            if scope["path"] in UPLOADS:
                await self._app(scope, receive, noted)
            else:
                await self._app(scope, body.receive, checked)
        except ProblemDetails as problem:
            wants_page = any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
            if problem.status == 401 and wants_page and scope["method"] == "GET":
                await _see(b"/login", noted)
            else:
                await _answer(problem, noted)
        finally:
            method = scope["method"] if scope["method"] in (*_SAFE, "POST", "DELETE", "PUT", "PATCH") else "other"
            self.requests[method, status] += 1
            self.seconds += time.perf_counter() - begun

    def _check(self, scope: Scope) -> None:
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            if name in (b"host", b"authorization", b"origin", b"content-length") and name.decode() in headers:
                raise ProblemDetails(400, "bad-request", f"a request must have one {name.decode()} header, got several")
            headers[name.decode("latin-1")] = value.decode("latin-1")
        host = headers.get("host", "")
        if _name(host) not in self._hosts:
            raise ProblemDetails(
                421,
                "host",
                f"the server must be addressed as one of {', '.join(sorted(self._hosts))}, got {host!r}; a3gnn serve "
                "--allow-host adds a name",
            )
        self._check_origin(scope["method"], headers, host)
        if self._token is not None and scope["path"] not in _OPEN:
            self._check_token(headers)
        length = headers.get("content-length", "0")
        if scope["path"] not in UPLOADS and length.isdecimal() and int(length) > MAX_BODY_BYTES:
            raise _too_large()

    def _check_origin(self, method: str, headers: dict[str, str], host: str) -> None:
        """Refuses requests that a page of another site makes a browser send."""
        origin = headers.get("origin")
        foreign = origin is not None and _netloc(origin) != host.lower()
        if method not in _SAFE and (foreign or headers.get("sec-fetch-site") in ("cross-site", "same-site")):
            raise ProblemDetails(
                403,
                "origin",
                f"a change must come from a page of this server or from a program, got the origin {origin!r}; open the "
                "server's own page",
            )

    def _check_token(self, headers: dict[str, str]) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        assert self._token is not None, "there is one"
        if not hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token.encode()):
            raise ProblemDetails(
                401,
                "token",
                "a request must carry the server's token in the header Authorization: Bearer TOKEN; a browser gets it "
                "at /login",
            )


class _Body:
    """Counts a request's body as it is read, and stops one that is too large."""

    def __init__(self, receive: Receive, safe: bool) -> None:
        self._receive, self._safe, self._bytes = receive, safe, 0

    @property
    def too_large(self) -> bool:
        return self._bytes > MAX_BODY_BYTES

    async def receive(self) -> MutableMapping[str, Any]:
        """Returns the next part.

        Raises:
            ProblemDetails: The body has too many bytes.
        """
        message = await self._receive()
        self._bytes += len(message.get("body", b""))
        if not self.too_large:
            return message
        if self._safe:  # no route reads this body, but an event stream waits here for its reader to leave
            return {"type": "http.disconnect"}
        raise _too_large()


def _name(host: str) -> str:
    """Returns the lower-case name in a Host header, without its port."""
    name, bracket, _ = host.partition("]")
    return (name[1:] if bracket else host.rpartition(":")[0] or host).lower()


def _netloc(origin: str) -> str | None:
    """Returns the lower-case host and port in an Origin header; None if it is no URL."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _too_large() -> ProblemDetails:
    return ProblemDetails(
        413,
        "too-large",
        f"a request must have at most {MAX_BODY_BYTES:,} bytes, got more; send graphs to POST /graphs/upload",
    )


async def _see(path: bytes, send: Send) -> None:
    headers = [(b"location", path), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _answer(problem: ProblemDetails, send: Send) -> None:
    body = json.dumps(problem.to_dict()).encode()
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    if problem.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="a3gnn"'))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
