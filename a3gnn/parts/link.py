"""`PartLink`: the connection to one graph server, which asks again until it answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from a3gnn._imports import optional
from a3gnn.errors import GraphServerError
from a3gnn.parts.protocol import METHODS, SERVICE, TOKEN_HEADER, TOKEN_VARIABLE
from a3gnn.parts.traffic import TrafficCounter
from a3gnn.units import count, format_duration

#: Seconds that an answer may take before it is asked for again. Guess: a cold disk's slowest take a few.
_ANSWER_S = 20.0
#: Seconds between two attempts: from the first of them, doubled each time, up to the last. Guesses.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
#: gRPC's names of failures after which the same request may be answered.
_PASSING = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "CANCELLED", "ABORTED")
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
    """Sends requests to one server. Thread-safe.

    Args:
        address: host:port.
        patience_s: Seconds for which a request is sent again where the server can't be reached or is late.
        token: What requests carry; None for nothing.
        counter: Counts.
        listener: Is told of a server that does not answer.

    Attributes:
        address: As given.
        name: What errors call what is there: its part, once that is known.
        failure: What gRPC raises where a request fails.
    """

    def __init__(
        self, address: str, patience_s: float, token: str | None, counter: TrafficCounter, listener: Listener
    ) -> None:
        grpc = optional("grpc", "parts", "a graph by parts")
        self.address, self.name, self.failure = address, "the graph server", grpc.RpcError
        self._patience_s, self._counter, self._listener = patience_s, counter, listener
        self._metadata = None if token is None else [(TOKEN_HEADER, f"Bearer {token}")]
        self._down: float | None = None
        options = [
            ("grpc.max_receive_message_length", -1),  # who asks knows how long an answer is
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.enable_retries", 0),  # they are ours, which are counted and told
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),  # a proxy to the Internet knows no machines of one's own
        ]
        self._channel = grpc.insecure_channel(address, options=options)
        self._calls = {name: self._channel.unary_unary(f"/{SERVICE}/{name}") for name in METHODS}

    def ask(self, method: str, request: bytes) -> Answer:
        """Sends a request, and returns what its answer comes by."""
        return Answer(self, method, request)

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    def send(self, method: str, request: bytes) -> Any:
        """Returns gRPC's future of one attempt."""
        timeout = min(_ANSWER_S, self._patience_s)
        return self._calls[method].future(request, timeout=timeout, metadata=self._metadata)

    def answered(self, sent: int, received: int, waited_s: float) -> None:
        """Notes an answer."""
        if self._down is not None:
            self._down = None
            self._listener.notify(f"{self.name} at {self.address} answers again")
        self._counter.answered(sent, received, waited_s)

    def failed(self, error: Any, since: float, attempts: int) -> None:
        """Notes a failed attempt of a request whose first one failed at `since`, by the monotonic clock.

        Raises:
            GraphServerError: The server refuses, or its time is over.
        """
        code, details = error.code().name, error.details()
        if code not in _PASSING:
            remedy = _REMEDIES.get(code, "what it says is a defect of a3gnn, or of what stands between")
            raise GraphServerError(f"{self.name} at {self.address} refuses ({code}: {details}); {remedy}") from error
        down = self._down  # of another thread's request, maybe, whose answer may come meanwhile
        if down is None:
            down = self._down = time.time()
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
        self._listener.check()
        self._counter.retried()


class Answer:
    """An answer that is under way.

    Args:
        link: Where it comes from.
        method: What was asked.
        request: Likewise; sent at once.
    """

    def __init__(self, link: PartLink, method: str, request: bytes) -> None:
        self._link, self._method, self._request = link, method, request
        self._call = link.send(method, request)

    def wait(self) -> bytes:
        """Returns the answer; sends the request again, with growing pauses, while the server can't be reached.

        Raises:
            GraphServerError: The server refuses, or can't be reached for as long as it is waited for.
        """
        link, began, since, attempts, pause = self._link, monotonic(), 0.0, 0, _FIRST_PAUSE_S
        while True:
            try:
                answer: bytes = self._call.result()
            except link.failure as error:
                attempts += 1
                since = since or monotonic()
                link.failed(error, since, attempts)
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                self._call = link.send(self._method, self._request)
            else:
                link.answered(len(self._request), len(answer), monotonic() - began)
                return answer
