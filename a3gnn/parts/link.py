"""`PartLink`: the connection to one graph server, which asks again until it answers."""

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
from a3gnn.checks import check_token
from a3gnn.errors import GraphServerError
from a3gnn.parts.protocol import METHODS, SERVICE, TOKEN_HEADER, TOKEN_VARIABLE
from a3gnn.units import count, format_duration, format_size


class LinkTraffic(NamedTuple):
    """Counts since a graph's parts were opened.

    Attributes:
        requests: Requests that were answered.
        bytes_sent: Bytes of these requests, without what gRPC adds.
        bytes_received: Bytes of their answers, likewise.
        retries: Requests that were sent again.
        waited_s: Seconds for which threads waited for answers, all threads together.
    """

    requests: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    retries: int = 0
    waited_s: float = 0.0

    def since(self, before: LinkTraffic) -> LinkTraffic:
        """Returns what was counted after `before`."""
        return LinkTraffic(*map(operator.sub, self, before))

    @property
    def text(self) -> str:
        """The counts for people."""
        again = ", 1 retry" if self.retries == 1 else f", {self.retries:,} retries"
        return (
            f"{count(self.requests, 'request')} to graph servers{again if self.retries else ''}: "
            f"{format_size(self.bytes_sent)} sent, {format_size(self.bytes_received)} received, threads waited "
            f"{format_duration(self.waited_s)}"
        )


class TrafficCounter:
    """Counts what is asked. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traffic = LinkTraffic()

    def add(self, more: LinkTraffic) -> None:
        """Adds `more` to the counts."""
        with self._lock:
            self._traffic = LinkTraffic(*map(operator.add, self._traffic, more))

    @property
    def traffic(self) -> LinkTraffic:
        """The counts so far, all of one moment."""
        return self._traffic


#: Seconds that an answer may take before it is asked for again. Guess: a cold disk's slowest take a few.
_ANSWER_S = 20.0
#: Seconds between two attempts: from the first of them, doubled each time, up to the last. Guesses.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
#: Requests to a server that are under way at once; further ones wait here. Guess.
_MOST_AT_ONCE = 16
#: Seconds between two looks at whether waiting is to end.
_LOOK_S = 1.0
#: gRPC's name of what a server says that has too much to do.
_BUSY = "RESOURCE_EXHAUSTED"
#: gRPC's names of failures after which the same request may be answered.
_PASSING = ("UNAVAILABLE", "DEADLINE_EXCEEDED", _BUSY, "CANCELLED", "ABORTED")
#: What of the other failures is known.
_REMEDIES = {
    "UNAUTHENTICATED": f"set {TOKEN_VARIABLE} to the token that the server was started with",
    "FAILED_PRECONDITION": "another part is served there than before; serve the one that was, or start again",
    "UNIMPLEMENTED": "is that a graph server of this version of a3gnn?",
    "OUT_OF_RANGE": "take feature_dtype float32",
}


@dataclass(slots=True)
class Listener:
    """Who is told that a server does not answer.

    Attributes:
        notify: Takes a line for people.
        check: Called while a server is waited for; what it raises ends the waiting.
    """

    notify: Callable[[str], None] = lambda line: None
    check: Callable[[], None] = lambda: None


class PartLink:
    """Sends requests to one server, some at once and the others in order. Thread-safe.

    Where an answer is late the connection may be dead, which nothing would say: the next attempt makes a new one.

    Args:
        address: host:port.
        patience_s: Seconds for which a request is sent again where the server can't be reached or is late.
        token: What requests carry; None for nothing.
        counter: Counts.
        listener: Is told of a server that does not answer.

    Raises:
        UsageError: No request can carry the token.
        MissingDependencyError: gRPC is not installed.

    Attributes:
        address: As given.
        name: What errors call what is there: its part, once that is known.
        failure: What gRPC raises where a request fails.
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
        """Makes a connection; requests that are under way keep the one before."""
        options = [
            ("grpc.max_receive_message_length", -1),  # who asks knows how long an answer is
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.enable_retries", 0),  # they are ours, which are counted and told
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),  # a proxy to the Internet knows no machines of one's own
        ]
        self._channel = self._grpc.insecure_channel(self.address, options=options)
        self._calls = {name: self._channel.unary_unary(f"/{SERVICE}/{name}") for name in METHODS}

    def ask(self, method: str, request: bytes) -> Answer:
        """Sends a request, at once or in its turn, and returns what its answer comes by."""
        answer = Answer(self, method, request)
        self.send(answer)
        return answer

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    def send(self, answer: Answer, *, first: bool = False) -> None:
        """Makes one attempt at `answer`, before those that wait for their turn if it is to be the `first`."""
        with self._lock:
            (self._queue.appendleft if first else self._queue.append)(answer)
        self._send_next()

    def _send_next(self) -> None:
        while True:
            with self._lock:
                if not self._queue or self._under_way >= _MOST_AT_ONCE:
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
        """Notes that the attempt by `call` has ended; the next one takes its turn."""
        with self._lock:
            self._under_way -= 1
        attempt.set_result(call)
        self._send_next()

    def check(self) -> None:
        """Raises what is to end the waiting, if anything is."""
        self._listener.check()

    def answered(self, sent: int, received: int) -> None:
        """Notes an answer."""
        if self._down is not None:
            self._down = None
            self._listener.notify(f"{self.name} at {self.address} answers again")
        self._counter.add(LinkTraffic(1, sent, received))

    def waited(self, waited_s: float) -> None:
        """Notes for how long an answer was waited for, whether it came or not."""
        self._counter.add(LinkTraffic(waited_s=waited_s))

    def failed(self, answer: Answer, error: Any, since: float, attempts: int) -> None:
        """Notes a failed attempt at `answer`, of which the first one failed at `since`, by the monotonic clock.

        Raises:
            GraphServerError: The server refuses, or its time is over.
        """
        code, details = error.code().name, error.details()
        if code not in _PASSING:
            remedy = _REMEDIES.get(code, "what it says is a defect of a3gnn, or of what stands between")
            raise GraphServerError(f"{self.name} at {self.address} refuses ({code}: {details}); {remedy}") from error
        down = self._down  # of another thread's request, maybe, whose answer may come meanwhile
        if down is None:
            down = time.time() - (monotonic() - since)
        if self._down is None and code != _BUSY:
            self._down = down
            self._listener.notify(
                f"{self.name} at {self.address} does not answer ({code}); it is asked again for "
                f"{format_duration(self._patience_s)}"
            )
        if monotonic() - since >= self._patience_s:
            began = time.strftime("%H:%M:%S", time.localtime(down))
            raise GraphServerError(
                f"{self.name} at {self.address} has not answered since {began}, for "
                f"{format_duration(self._patience_s)} and {count(attempts, 'attempt')} (the last: {code}, {details}); "
                "start it there again with a3gnn parts serve, or give it more time: parts:...,wait=10min"
            ) from error
        self.check()
        with self._lock:
            if code == "DEADLINE_EXCEEDED" and answer.calls is self._calls:
                self._connect()
        self._counter.add(LinkTraffic(retries=1))


class Answer:
    """An answer that is under way.

    Args:
        link: Where it comes from.
        method: What is asked.
        request: Likewise.

    Attributes:
        method: As given.
        request: As given.
        attempt: Ends with gRPC's future of the attempt under way, which has ended then.
        calls: gRPC's methods by which it was made: those of one connection.
    """

    def __init__(self, link: PartLink, method: str, request: bytes) -> None:
        self._link, self.method, self.request = link, method, request
        self.attempt: Future[Any] = Future()
        self.calls: dict[str, Any] = {}

    def wait(self) -> bytes:
        """Returns the answer; sends the request again, with growing pauses, while the server can't be reached.

        Raises:
            GraphServerError: The server refuses, or can't be reached for as long as it is waited for.
        """
        began = monotonic()
        try:
            return self._wait()
        finally:
            self._link.waited(monotonic() - began)

    def _wait(self) -> bytes:
        link, since, attempts, pause = self._link, 0.0, 0, _FIRST_PAUSE_S
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
        """Returns gRPC's future of the attempt, ended."""
        while True:
            try:
                return self.attempt.result(_LOOK_S)
            except TimeoutError:
                self._link.check()
