"""Connections that die in silence, servers with too much to do or too slow a client, and waiting that can be ended."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from a3gnn.errors import GraphServerError
from a3gnn.graphs.graph import Graph
from a3gnn.parts import client, link, serve
from a3gnn.parts.link import Listener, PartLink, TrafficCounter
from a3gnn.parts.opening import PartsSpec, open_parts
from a3gnn.parts.protocol import SERVICE
from tests.parts.servers import HOST, opened, served_here

ALL = np.arange(2000, dtype=np.int32)


class Proxy:
    """Forwards connections to `address`; the first one only until `swallow`, after which it says nothing more."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._target, self._listening = (host, int(port)), socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._listening.getsockname()[1]}"
        self.connections, self.swallow = 0, threading.Event()
        self._ends: list[socket.socket] = [self._listening]
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(self._target)
                self._ends += near, far
                self.connections += 1
                dies = self.connections == 1
                for ends in ((near, far), (far, near)):
                    self._start(self._forward, *ends, dies)

    def _forward(self, source: socket.socket, sink: socket.socket, dies: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if not (dies and self.swallow.is_set()):
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for end in self._ends:
            with suppress(OSError):  # its other side has gone
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for end in self._ends:
            end.close()


def test_a_connection_that_dies_in_silence_is_made_anew(
    parts_folder: Path, small_folder_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_ANSWER_S", 1.0)
    with served_here(parts_folder) as addresses:
        proxy = Proxy(addresses[0])
        graph = open_parts(PartsSpec((proxy.address, *addresses[1:]), 8.0))
        proxy.swallow.set()
        assert np.array_equal(graph.features.read(ALL), small_folder_graph.features.array)
        assert proxy.connections > 1
        graph.client.close()
        proxy.close()


@contextmanager
def answering(answer: Callable[[bytes, Any], bytes], patience_s: float) -> Iterator[tuple[PartLink, list[str]]]:
    """Yields a link to a server whose `About` is `answer`, and the lines that people are told."""
    told: list[str] = []
    server = grpc.server(ThreadPoolExecutor(64))
    handlers = {"About": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    port = server.add_insecure_port(f"{HOST}:0")
    server.start()
    one = PartLink(f"{HOST}:{port}", patience_s, None, TrafficCounter(), Listener(told.append))
    yield one, told
    one.close()
    server.stop(0).wait()


def test_so_many_requests_are_under_way_and_all_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "MOST_AT_ONCE", 4)
    lock, at_once, several = threading.Lock(), [0, 0], threading.Event()

    def answer(request: bytes, context: Any) -> bytes:
        with lock:
            at_once[0] += 1
            at_once[1] = max(at_once)
            if at_once[0] > 1:
                several.set()
        several.wait(30)
        time.sleep(0.01)
        with lock:
            at_once[0] -= 1
        return request

    with answering(answer, 60.0) as (one, told), ThreadPoolExecutor(3) as readers:

        def read(reader: int) -> list[bytes]:
            asked = [one.ask("About", b"%d %d" % (reader, i)) for i in range(30)]
            return [under_way.wait() for under_way in asked]

        for reader, found in enumerate(readers.map(read, range(3))):
            assert found == [b"%d %d" % (reader, i) for i in range(30)]
    assert 1 < at_once[1] <= 4
    assert not told


def test_a_busy_server_is_asked_again_and_not_called_gone() -> None:
    refused = [True] * 3

    def answer(request: bytes, context: Any) -> bytes:
        if refused:
            refused.pop()
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")
        return b"at last"

    with answering(answer, 60.0) as (one, told):
        assert one.ask("About", b"").wait() == b"at last"
    assert not told


def test_waiting_for_a_hung_server_ends_soon_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class StopError(Exception):
        pass

    def stop() -> None:
        raise StopError

    monkeypatch.setattr(link, "_LOOK_S", 0.1)
    hung, counter = threading.Event(), TrafficCounter()
    with answering(lambda request, context: str(hung.wait(600)).encode(), 600.0) as (one, _):
        one._listener, one._counter = Listener(check=stop), counter
        with pytest.raises(StopError):
            one.ask("About", b"").wait()
        hung.set()
    assert 0.1 <= counter.traffic.waited_s < 300  # far from its patience


def test_a_closed_link_says_so() -> None:
    with answering(lambda request, context: b"", 0.5) as (one, _):
        one.close()
        with pytest.raises((ValueError, GraphServerError)):
            one.ask("About", b"").wait()


class Call:
    """A call that gRPC has not sent yet, until `end`."""

    def __init__(self) -> None:
        self._end: list[Callable[[], None]] = []

    def add_callback(self, end: Callable[[], None]) -> bool:
        self._end.append(end)
        return True

    def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise AssertionError(code.name)

    def end(self) -> None:
        for one in self._end:
            one()


def test_answers_on_their_way_keep_a_budget() -> None:
    budget = serve.AnswerBytes(100)
    answer = serve._handler(grpc, bytes.upper, None, budget).unary_unary
    first, second = Call(), Call()
    answer(b"a" * 60, first)
    answer(b"a" * 40, second)
    with pytest.raises(AssertionError, match="RESOURCE_EXHAUSTED"):
        answer(b"a", Call())
    first.end()
    assert answer(b"a", Call()) == b"A"
    with pytest.raises(AssertionError, match="RESOURCE_EXHAUSTED"):
        answer(b"a" * 60, Call())


def test_a_single_answer_may_have_more() -> None:
    budget = serve.AnswerBytes(100)
    assert budget.take(1000)
    assert not budget.take(1)
    budget.give_back(1000)
    assert budget.take(1)


def test_a_graph_is_read_within_a_budget(
    parts_folder: Path, small_folder_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ASKED_BYTES", 4096)
    monkeypatch.setattr(serve, "_MOST_BYTES", 4 * 4096)
    told: list[str] = []
    with opened(parts_folder) as graph:
        graph.client.listener.notify = told.append
        assert np.array_equal(graph.features.read(ALL), small_folder_graph.features.array)
    assert not told
