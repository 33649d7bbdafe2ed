"""`Guard`: checks the host, origin, token and size of every request first, and how long its body takes."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
import time
from collections import Counter
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from anyio import to_thread
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from a3gnn.addresses import ANY_ADDRESS, LOOPBACK
from a3gnn.service.http.connections import LINK
from a3gnn.service.http.problems import LEFT, ProblemDetails
from a3gnn.service.http.sessions import Sessions, WrongTokens
from a3gnn.service.http.transfer import Transfer
from a3gnn.service.pages.frame import problem_answer, wants_page
from a3gnn.service.settings import MOST_PORT, ServiceSettings
from a3gnn.units import format_size

#: Most bytes of a file of measurements: those of a thousand tunes of ten trials, at some 5 KB per row.
_MOST_ROWS_BYTES = 64 << 20
#: Name of the cookie that holds a session, before the server's port: browsers send a cookie to all ports of a host.
_COOKIE = "a3gnn_session"
#: Bytes of a body that earn another second; as Apache's mod_reqtimeout.
_LEAST_RATE = 500
_SAFE = ("GET", "HEAD", "OPTIONS")
#: Paths that answer without a token: the health checks, and the page that takes the token with its style.
OPEN = ("/livez", "/readyz", "/healthz", "/login", "/static/study.css", "/static/pages.css")
#: The key of a request's scope that holds the secret of the session that allows it.
SESSION = "a3gnn.session"
#: A Host header: a name or an address, and maybe a port.
_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
#: A request's name, of a proxy in front of the server; another one is replaced.
_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
#: Has one line per request (`a3gnn serve --access-log`): method, path, status, milliseconds, address and name.
ACCESS = logging.getLogger("a3gnn.service.access")
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
        sessions: The sessions of browsers.

    Attributes:
        wrong_tokens: Bounds them, by address.
        requests: Number of requests by method and status.
        seconds: Total time of all requests.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, sessions: Sessions) -> None:
        self._app, self._token, self._sessions = Transfer(app), settings.token, sessions
        self.wrong_tokens = WrongTokens()
        names = {settings.host, *settings.allowed_hosts} - ANY_ADDRESS
        self._hosts = {name.lower().strip("[]") for name in names | LOOPBACK}
        self._uploads = {
            "/graphs/upload": BodyLimit(settings.max_upload_bytes, "a3gnn serve --max-upload sets the limit"),
            "/profiles": BodyLimit(_MOST_ROWS_BYTES, "send the measurements in several files"),
        }
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or hands it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, name = time.perf_counter(), 500, _request_id(scope)
        limit = self._uploads.get(scope["path"], _OPEN_BODY if scope["path"] in OPEN else _USUAL_BODY)
        body = _Body(receive, limit, scope["method"] in _SAFE)

        async def checked(message: Message) -> None:
            if body.problem is None:
                await noted(message)
            elif message["type"] == "http.response.start":  # replaces the application's own answer to the error
                await self._refuse(body.problem, scope, receive, noted)

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = LEFT if body.has_left else message["status"]
                have = {name for name, _ in message.get("headers", ())}
                more = (*_HEADERS, (b"x-request-id", name.encode()))
                message["headers"] = [*message.get("headers", ()), *(one for one in more if one[0] not in have)]
            await send(message)

        try:
            await self._check(scope, limit)
            await self._app(scope, body.receive, checked)
        except ProblemDetails as problem:
            if problem.status == 401 and wants_page(scope) and scope["method"] == "GET":
                await RedirectResponse(_login(scope), 303)(scope, receive, noted)
            else:
                await self._refuse(problem, scope, receive, noted)
        finally:
            method = scope["method"] if scope["method"] in (*_SAFE, "POST", "DELETE", "PUT", "PATCH") else "other"
            self.requests[method, status] += 1
            seconds = time.perf_counter() - begun
            self.seconds += seconds
            address = (scope.get("client") or ("-",))[0]
            ACCESS.info("%s %r %d %.1f ms %s %s", method, scope["path"], status, seconds * 1e3, address, name)

    async def _check(self, scope: Scope, limit: BodyLimit) -> None:
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
        if self._token is not None and scope["path"] not in OPEN:
            await self._check_token(scope, headers)
            if (link := scope.get(LINK)) is not None:
                link.admit()
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > limit.most:
            raise limit.too_large()

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

    async def _check_token(self, scope: Scope, headers: dict[str, str]) -> None:
        assert self._token is not None, "there is one"
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and (given := given.strip()):
            await self.take_token(scope, given, anew=False)
            return
        secret = cookie_parser(headers.get("cookie", "")).get(cookie_name(scope), "")
        if not await self._has_session(secret):
            raise _no_token()
        scope[SESSION] = secret

    async def take_token(self, scope: Scope, given: str, *, anew: bool = True) -> None:
        """Checks a token that a request gives.

        After too many wrong ones from its address, the check waits, so that the right one passes late.

        Args:
            scope: The request.
            given: The token.
            anew: Whether the same wrong token counts again, as if a person tries.

        Raises:
            ProblemDetails: It is wrong, or too many wait for their check; 429 says that too many others were wrong.
        """
        address = (scope.get("client") or ("", 0))[0]
        wait_s = self.wrong_tokens.wait_s(address)
        turn_s = self.wrong_tokens.turn_s(address) if wait_s else 0.0
        await asyncio.sleep(turn_s or 0.0)
        right = hmac.compare_digest(given.encode("latin-1", "replace"), (self._token or "").encode())
        if right and turn_s is not None:
            return
        if wait_s:
            detail = f"too many wrong tokens came from your address; try again in {wait_s} seconds"
            problem = ProblemDetails(429, "guesses", detail)
            problem.headers = {"Retry-After": str(wait_s)}
            raise problem
        self.wrong_tokens.add(address, "" if anew else given)
        raise _no_token()

    async def _has_session(self, secret: str) -> bool:
        if not secret:
            return False
        try:
            return self._sessions.is_fresh(secret) or await to_thread.run_sync(self._sessions.holds, secret)
        except SQLAlchemyError as error:
            raise ProblemDetails(503, "store", "the database does not answer; ask again later") from error

    async def _refuse(self, problem: ProblemDetails, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends `problem`."""
        answer = problem_answer(problem, scope, has_token=self._token is not None)
        if problem.status == 401:
            answer.headers["www-authenticate"] = 'Bearer realm="a3gnn"'
        if problem.status == 408:
            answer.headers["connection"] = "close"  # the rest of the body is not read
        await answer(scope, receive, send)


def _request_id(scope: Scope) -> str:
    """Returns the name that a proxy gave to the request, or a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


class BodyLimit(NamedTuple):
    """How large a request's body may be."""

    most: int  # most bytes
    remedy: str  # what helps if it has more
    seconds: float = 20.0  # seconds that it may take, besides those that `_LEAST_RATE` earns

    def too_large(self) -> ProblemDetails:
        """Returns the problem for a larger body."""
        size = f"{self.most:,} bytes ({format_size(self.most)})"
        return ProblemDetails(413, "too-large", f"this request must have at most {size}, got more; {self.remedy}")

    def too_slow(self) -> ProblemDetails:
        """Returns the problem for a slower body."""
        return ProblemDetails(
            408,
            "too-slow",
            f"a request's body must arrive within {self.seconds:g} seconds, or at {_LEAST_RATE} bytes per second; send "
            "it again",
        )


#: The limits of a request without a token, and of one that is no upload. Bytes are nginx's large_client_header_buffers
#: and client_max_body_size. The 20 seconds of `BodyLimit` are those of Apache's mod_reqtimeout; a quarter of them is
#: enough for a token and the page to show, some hundred bytes.
_OPEN_BODY = BodyLimit(8 << 10, "a form with the token is smaller", 5.0)
_USUAL_BODY = BodyLimit(1 << 20, "send graphs to POST /graphs/upload")


class _Body:
    """Counts a request's body as it is read, and stops one that is too large or too slow.

    Attributes:
        problem: What is wrong with it; None if nothing is.
        has_left: Whether the client left before its end.
    """

    def __init__(self, receive: Receive, limit: BodyLimit, safe: bool) -> None:
        self._receive, self._limit, self._safe = receive, limit, safe
        self._bytes, self._ended = 0, False
        self._begun: float | None = None
        self.problem: ProblemDetails | None = None
        self.has_left = False

    async def receive(self) -> Message:
        """Returns the next part.

        Raises:
            ProblemDetails: The body has too many bytes, or takes too long.
        """
        if self._ended:  # what follows is that the client leaves, for which an event stream waits
            return await self._receive()
        if self.problem is not None:
            return self._stopped(self.problem)
        try:
            async with asyncio.timeout(self._left_s()):
                message = await self._receive()
        except TimeoutError:
            return self._stopped(self._limit.too_slow())
        self._ended = not message.get("more_body", False)
        self.has_left = message["type"] == "http.disconnect"
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._limit.most:
            return self._stopped(self._limit.too_large())
        return message

    def _left_s(self) -> float:
        self._begun = self._begun or time.monotonic()
        return max(0.0, self._begun + self._limit.seconds + self._bytes / _LEAST_RATE - time.monotonic())

    def _stopped(self, problem: ProblemDetails) -> Message:
        self.problem = problem
        if self._safe:  # no route reads this body
            return {"type": "http.disconnect"}
        raise problem


def cookie_name(scope: Scope) -> str:
    """Returns the name of the cookie with the session of the server that got the request."""
    return f"{_COOKIE}_{(scope.get('server') or ('', 0))[1]}"


def is_encrypted(scope: Scope) -> bool:
    """Returns whether the browser came by TLS, if only as far as a proxy."""
    headers = Headers(scope=scope)
    first = headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return "https" in (scope["scheme"], first) or "proto=https" in headers.get("forwarded", "").lower()


def address_of(scope: Scope) -> str:
    """Returns the address of the server as the client wrote it, such as http://127.0.0.1:8642."""
    return f"{'https' if is_encrypted(scope) else 'http'}://{Headers(scope=scope).get('host', '')}"


def _login(scope: Scope) -> str:
    """Returns the path of the login page that leads back to the request's page."""
    page = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
    return "/login" if page == "/" else f"/login?next={quote(page)}"


def _name(host: str) -> str:
    """Returns the lower-case name in a Host header, without its port; "" for any other text."""
    found = _HOST.fullmatch(host.lower())
    return "" if found is None or int(found["port"] or 0) > MOST_PORT else found["ipv6"] or found["name"]


def _netloc(origin: str) -> str | None:
    """Returns the lower-case host and port in an Origin header; None if it is no URL."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _no_token() -> ProblemDetails:
    return ProblemDetails(
        401,
        "token",
        "a request must carry the server's token in the header Authorization: Bearer TOKEN; a browser gets a session "
        "for it at /login",
    )
