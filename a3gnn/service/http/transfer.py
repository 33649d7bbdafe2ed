"""`Transfer`: HEAD for every GET, entity tags and compression, for all answers of an application."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Files of numbers, such as weights, are sent as they are: they hardly compress.
_SENT_AS_THEY_ARE = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/octet-stream")
#: zlib's own default.
_LEVEL = 6


class _SentError(Exception):
    """Ends an application whose answer to HEAD is complete."""


class Transfer:
    """Wraps an ASGI application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._zipped = GZipMiddleware(self._tagged, compresslevel=_LEVEL, exclude_content_types=_SENT_AS_THEY_ARE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = _without_refused_gzip(scope)
        if scope["method"] != "HEAD":
            await self._zipped(scope, receive, send)
            return
        sent = asyncio.Event()

        async def received() -> Message:
            """Has an application that still sends see its client leave, once the answer is complete."""
            waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(one) for one in (receive(), sent.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                return waits[0].result() if waits[0].done() else {"type": "http.disconnect"}
            finally:
                for one in waits:
                    one.cancel()

        async def head(message: Message) -> None:
            if sent.is_set():
                raise _SentError
            if message["type"] == "http.response.body":
                message = {"type": "http.response.body", "body": b""}
                sent.set()
            await send(message)

        with suppress(_SentError):
            await self._zipped({**scope, "method": "GET"}, received, head)

    async def _tagged(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers with an entity tag where the body is known whole, and with 304 where the client has that body."""
        start: Message | None = None
        known = {tag.strip() for tag in Headers(scope=scope).get("if-none-match", "").split(",")}

        async def tagged(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                is_whole = start["status"] == 200 and scope["method"] == "GET" and not message.get("more_body", False)
                if is_whole and _tag(start, message.get("body", b""), known):
                    message = {"type": "http.response.body", "body": b""}
                await send(start)
                start = None
            await send(message)

        await self._app(scope, receive, tagged)


def _tag(start: Message, body: bytes, known: set[str]) -> bool:
    """Adds the tag of `body` to the head of an answer; returns whether it is among the `known` ones, now with 304."""
    headers = MutableHeaders(raw=start["headers"])
    # Weak, because it is the same for the compressed body.
    headers["etag"] = tag = f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    if not known & {tag, tag.removeprefix("W/"), "*"}:
        return False
    start["status"] = 304
    for name in ("content-length", "content-type"):
        del headers[name]
    return True


def _without_refused_gzip(scope: Scope) -> Scope:
    """Returns the request without the header Accept-Encoding if that refuses gzip by a weight of 0."""
    accepted = Headers(scope=scope).get("accept-encoding", "").lower().replace(" ", "").split(",")
    if not any(one.startswith("gzip;q=0") and not one.partition("=")[2].strip("0.") for one in accepted):
        return scope
    return {**scope, "headers": [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]}
