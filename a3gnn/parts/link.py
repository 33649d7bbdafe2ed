"""`PartLink`: the connection to one graph server. It repeats a request until it is answered, and counts its traffic."""

from __future__ import annotations

import operator
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from a3gnn._imports import optional
from a3gnn.addresses import check_token
from a3gnn.errors import GraphServerError
from a3gnn.notify import LOOK_S
from a3gnn.parts.protocol import METHODS, SERVICE, TOKEN_HEADER, TOKEN_VARIABLE
from a3gnn.units import count, format_duration, format_size

#: Seconds until a request without an answer is sent again. Guess: a cold disk's slowest answers take a few.
_ANSWER_S = 20.0
#: Most seconds between two attempts. The first pause is `LOOK_S`, and each one is twice as long as the one before.
_LONGEST_PAUSE_S = 2.0
#: Requests to a server in flight at once; further ones wait in the queue. Guess.
MOST_AT_ONCE = 16
#: Seconds between two checks whether waiting must end.
_LOOK_S = 1.0
#: gRPC's code of an overloaded server.
_BUSY = "RESOURCE_EXHAUSTED"
#: gRPC's codes of failures after which the same request may succeed.
_PASSING = ("UNAVAILABLE", "DEADLINE_EXCEEDED", _BUSY, "CANCELED", "ABORTED")
#: Remedies for other failures, by gRPC's code.
_REMEDIES = {
    "UNAUTHENTICATED": f"set {TOKEN_VARIABLE} to the token of the server",
    "FAILED_PRECONDITION": "the server now has another part; serve the earlier part again, or restart the training",
    "UNIMPLEMENTED": "is it a graph server of this version of a3gnn?",
    "OUT_OF_RANGE": "take feature_dtype float32",
}


class LinkTraffic(NamedTuple):
    """Counts since a graph's parts were opened."""

    requests: int = 0  # requests that were answered
    bytes_sent: int = 0  # bytes of these requests, without gRPC's overhead
    bytes_received: int = 0  # bytes of their answers, without gRPC's overhead
    retries: int = 0  # requests that were sent again
    waited_s: float = 0.0  # seconds that threads waited for answers, summed over threads

    def since(self, before: LinkTraffic) -> LinkTraffic:
        """Returns the counts after `before`."""
        return LinkTraffic(*map(operator.sub, self, before))

    @property
    def text(self) -> str:
        """The counts as text."""
        again = ", 1 retry" if self.retries == 1 else f", {self.retries:,} retries"
        return (
            f"{count(self.requests, 'request')} to graph servers{again if self.retries else ''}: "
            f"{format_size(self.bytes_sent)} sent, {format_size(self.bytes_received)} received, threads waited "
            f"{format_duration(self.waited_s)}"
        )


class TrafficCounter:
    """Counts requests and answers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traffic = LinkTraffic()

    def add(self, more: LinkTraffic) -> None:
        """Adds `more` to the counts."""
        with self._lock:
            self._traffic = LinkTraffic(*map(operator.add, self._traffic, more))

    @property
    def traffic(self) -> LinkTraffic:
        """The counts so far; all from one moment."""
        return self._traffic


@dataclass(slots=True)
class Listener:
    """Callbacks for a server that does not answer.

    Attributes:
        notify: Takes a line for the user.
        check: Called while a thread waits for a server; an exception from it ends the waiting.
    """

    notify: Callable[[str], None] = lambda line: None
    check: Callable[[], None] = lambda: None


class PartLink:
    """Sends requests to one server, some at once and the others in order. Thread-safe.

    If an answer is late, the connection may be dead without an error, so the next attempt makes a new one.

    Args:
        address: host:port.
        patience_s: Seconds for which a request is sent again if the server can't be reached or is late.
        token: Sent with each request; None sends no token.
        counter: Counts the traffic.
        listener: Notified of a server that does not answer.

    Raises:
        UsageError: No request can carry the token.
        MissingDependencyError: gRPC is not installed.

    Attributes:
        address: host:port.
        name: Name in error messages: the server's part, after it is known.
        failure: gRPC's exception class of a failed request.
    """

    def __init__(
        self, address: str, patience_s: float, token: str | None, counter: TrafficCounter, listener: Listener
    ) -> None:
        grpc = optional("grpc", "parts", "a graph by parts")
        if token is not None:
            check_token(token, TOKEN_VARIABLE)
        self._grpc = grpc
        self.address, self.name, self.failure = address, "the graph server", grpc.RpcError
        self._patience_s, self._counter, self._listener = patience_s, counter, listener
        self._metadata = None if token is None else [(TOKEN_HEADER, f"Bearer {token}")]
        self._down: float | None = None
        self._lock, self._queue, self._under_way = threading.Lock(), deque[Answer](), 0
        self._connect()

    def _connect(self) -> None:
        """Makes a new connection; requests in flight keep the old one."""
        options = [
            ("grpc.max_receive_message_length", -1),  # the client checks the length of an answer
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.enable_retries", 0),  # this class retries, counts and reports
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),  # an Internet proxy can't reach machines of the local network
        ]
        self._channel = self._grpc.insecure_channel(self.address, options=options)
        self._calls = {name: self._channel.unary_unary(f"/{SERVICE}/{name}") for name in METHODS}

    def ask(self, method: str, request: bytes) -> Answer:
        """Sends a request, at once or from the queue, and returns an object to wait for its answer."""
        answer = Answer(self, method, request)
        self.send(answer)
        return answer

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    def send(self, answer: Answer, *, first: bool = False) -> None:
        """Makes one attempt at `answer`; with `first`, before the attempts in the queue."""
        with self._lock:
            (self._queue.appendleft if first else self._queue.append)(answer)
        self._send_next()

    def _send_next(self) -> None:
        while True:
            with self._lock:
                if not self._queue or self._under_way >= MOST_AT_ONCE:
                    return
                self._under_way += 1
                answer = self._queue.popleft()
            try:
                timeout = min(_ANSWER_S, self._patience_s)
                answer.calls = self._calls
                call = answer.calls[answer.method].future(answer.request, timeout=timeout, metadata=self._metadata)
            except (ValueError, RuntimeError) as error:  # the connection was closed, or the interpreter ends
                with self._lock:
                    self._under_way -= 1
                answer.attempt.set_exception(error)
            else:
                call.add_done_callback(partial(self._end, answer.attempt))

    def _end(self, attempt: Future[Any], call: Any) -> None:
        """Records the end of the attempt by `call`, and starts the next one from the queue."""
        with self._lock:
            self._under_way -= 1
        attempt.set_result(call)
        self._send_next()

    def check(self) -> None:
        """Raises the listener's exception if waiting must end."""
        self._listener.check()

    def answered(self, sent: int, received: int) -> None:
        """Records an answer."""
        if self._down is not None:
            self._down = None
            self._listener.notify(f"{self.name} at {self.address} answers again")
        self._counter.add(LinkTraffic(1, sent, received))

    def waited(self, waited_s: float) -> None:
        """Records the seconds of waiting for an answer, whether it came or not."""
        self._counter.add(LinkTraffic(waited_s=waited_s))

    def failed(self, answer: Answer, error: Any, since: float, attempts: int) -> None:
        """Records a failed attempt at `answer`; `since` is the monotonic time of its first failure.

        Raises:
            GraphServerError: The server refuses, or `patience_s` has passed.
        """
        code, details = error.code().name, error.details()
        if code not in _PASSING:
            remedy = _REMEDIES.get(code, "this is a defect of a3gnn, or of a program between both sides")
            raise GraphServerError(
                f"{self.name} at {self.address} refuses the request ({code}: {details}); {remedy}"
            ) from error
        down = self._down  # a copy, because another thread may set or clear it
        if down is None:
            down = time.time() - (monotonic() - since)
        if self._down is None and code != _BUSY:
            self._down = down
            self._listener.notify(
                f"{self.name} at {self.address} does not answer ({code}); requests are repeated for "
                f"{format_duration(self._patience_s)}"
            )
        if monotonic() - since >= self._patience_s:
            began = time.strftime("%H:%M:%S", time.localtime(down))
            raise GraphServerError(
                f"{self.name} at {self.address} has not answered since {began}, for "
                f"{format_duration(self._patience_s)} and {count(attempts, 'attempt')} (the last: {code}, {details}); "
                "start it there again with a3gnn parts serve, or wait longer: parts:...,wait=10min"
            ) from error
        self.check()
        with self._lock:
            if code == "DEADLINE_EXCEEDED" and answer.calls is self._calls:
                self._connect()
        self._counter.add(LinkTraffic(retries=1))


class Answer:
    """A pending answer.

    Attributes:
        method: gRPC method.
        attempt: Resolves to gRPC's future of the present attempt after that attempt has ended.
        calls: gRPC's methods of the connection that the attempt uses.
    """

    def __init__(self, link: PartLink, method: str, request: bytes) -> None:
        self._link, self.method, self.request = link, method, request
        self.attempt: Future[Any] = Future()
        self.calls: dict[str, Any] = {}

    def wait(self) -> bytes:
        """Returns the answer; sends the request again, with growing pauses, while the server can't be reached.

        Raises:
            GraphServerError: The server refuses, or can't be reached for `patience_s` seconds.
        """
        began = monotonic()
        try:
            return self._wait()
        finally:
            self._link.waited(monotonic() - began)

    def _wait(self) -> bytes:
        link, since, attempts, pause = self._link, 0.0, 0, LOOK_S
        while True:
            try:
                answer: bytes = self._ended().result()
            except link.failure as error:
                attempts += 1
                since = since or monotonic()
                link.failed(self, error, since, attempts)
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                self.attempt = Future()
                link.send(self, first=True)
            else:
                link.answered(len(self.request), len(answer))
                return answer

    def _ended(self) -> Any:
        """Returns gRPC's future of the attempt after its end."""
        while True:
            try:
                return self.attempt.result(_LOOK_S)
            except TimeoutError:
                self._link.check()
