"""`Transfer`: HEAD for every GET, entity tags and compression, for all answers of an application."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from anyio import to_thread

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Media types that compress well; events are sent as they come.
_COMPRESSED = ("text/", "application/json", "application/jsonl", "application/problem+json")
_EVENTS = "text/event-stream"
#: Bytes from which an answer is compressed, and from which a thread does it. Guesses.
_LEAST, _LARGE = 1000, 1 << 16
#: Compression level; zlib's default. Static files are compressed once.
_LEVEL = 6
_STATIC, _KEPT = "/static/", 8


class _SentError(Exception):
    """Ends an application whose answer to HEAD is complete."""


class Transfer:
    """Wraps an ASGI application.

    Args:
        app: The application.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_head = scope["method"] == "HEAD"
        answer = _Answer(scope, send, self._compressed, is_head)

        async def received() -> Message:
            """Has an application that still sends see its client leave, once the answer to HEAD is complete."""
            asked = asyncio.ensure_future(receive())
            sent = asyncio.ensure_future(answer.sent.wait())
            try:
                await asyncio.wait((asked, sent), return_when=asyncio.FIRST_COMPLETED)
                return asked.result() if asked.done() else {"type": "http.disconnect"}
            finally:
                asked.cancel()
                sent.cancel()

        if not is_head:
            await self._app(scope, receive, answer.send)
            return
        with suppress(_SentError):
            await self._app({**scope, "method": "GET"}, received, answer.send)

    async def _compressed(self, path: str, tag: str, body: bytes) -> bytes:
        """Returns `body` compressed; of a static file, it is done once."""
        key = (path, tag)
        if key in self._kept:
            return self._kept[key]
        if len(body) < _LARGE:
            return gzip.compress(body, _LEVEL, mtime=0)
        found = await to_thread.run_sync(lambda: gzip.compress(body, _LEVEL, mtime=0))
        if path.startswith(_STATIC):
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found


class _Answer:
    """One answer, changed on its way.

    Attributes:
        sent: Set when the answer to HEAD is complete.
    """

    def __init__(
        self, scope: Scope, send: Send, compressed: Callable[[str, str, bytes], Awaitable[bytes]], is_head: bool
    ) -> None:
        headers = dict(scope["headers"])
        self._path, self._is_head, self._send, self._compressed = scope["path"], is_head, send, compressed
        self._is_get = is_head or scope["method"] == "GET"
        self._takes_gzip = _takes_gzip(headers.get(b"accept-encoding", b""))
        self._known = {tag.strip() for tag in headers.get(b"if-none-match", b"").split(b",")}
        self._start: Message | None = None
        self.sent = asyncio.Event()
        self._piecewise: Any = None

    async def send(self, message: Message) -> None:
        """Takes a message of the application."""
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] != "http.response.body":
            await self._send(message)
        elif self._start is None:
            await self._more(message)
        else:
            start, self._start = self._start, None
            await self._first(start, message)

    async def _first(self, start: Message, message: Message) -> None:
        body, more = message.get("body", b""), message.get("more_body", False)
        headers = {name.lower(): value for name, value in start.get("headers", ())}
        others = [(name, value) for name, value in start.get("headers", ()) if name.lower() == b"set-cookie"]
        kind = headers.get(b"content-type", b"").decode("latin-1")
        small = kind.startswith(_COMPRESSED) and not kind.startswith(_EVENTS) and b"content-encoding" not in headers
        if small:
            headers[b"vary"] = b"Accept-Encoding"
        if not more:
            body = await self._whole(start, headers, body, small)
        elif small and self._takes_gzip:
            self._piecewise = zlib.compressobj(_LEVEL, wbits=31)
            headers[b"content-encoding"] = b"gzip"
            headers.pop(b"content-length", None)
            body = self._piecewise.compress(body)
        headers.pop(b"set-cookie", None)
        await self._send({**start, "headers": [*headers.items(), *others]})
        if self._is_head:
            await self._send({"type": "http.response.body", "body": b""})
            self.sent.set()
            return
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def _whole(self, start: Message, headers: dict[bytes, bytes], body: bytes, small: bool) -> bytes:
        """Returns a body that is known whole, compressed or left out; changes status and headers with it."""
        tag = ""
        if self._is_get and start["status"] == 200:
            # Weak, because it is the same for the compressed body.
            tag = f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
            headers[b"etag"] = tag.encode()
            if self._known & {tag.encode(), tag.removeprefix("W/").encode(), b"*"}:
                start["status"] = 304
                for name in (b"content-length", b"content-type"):
                    headers.pop(name, None)
                return b""
        if small and self._takes_gzip and len(body) >= _LEAST:
            body = await self._compressed(self._path, tag, body)
            headers[b"content-encoding"] = b"gzip"
        if b"content-length" in headers:
            headers[b"content-length"] = str(len(body)).encode()
        return body

    async def _more(self, message: Message) -> None:
        if self._is_head:
            raise _SentError
        if self._piecewise is not None:
            ended = not message.get("more_body", False)
            body = self._piecewise.compress(message.get("body", b""))
            message = {**message, "body": body + self._piecewise.flush() if ended else body}
        await self._send(message)


def _takes_gzip(accepted: bytes) -> bool:
    """Returns whether the header Accept-Encoding allows gzip."""
    for one in accepted.decode("latin-1").lower().split(","):
        name, _, weight = one.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
