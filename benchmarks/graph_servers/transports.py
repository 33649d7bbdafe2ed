"""What carries requests to graph servers: gRPC, the standard library's connections, ZeroMQ and torch RPC, measured.

    python -m benchmarks.graph_servers.transports [--servers 3] [--rounds 5] [--json FILE]

Servers are processes of this machine that answer each request with bytes that are there already: what is timed is what
carries them. Sizes are those that a mini-batch of 1,024 seeds, fanouts (25, 10) and 128 float16 features of
fb100_multi_a sends to one of three servers. A request goes to all servers at once; its time ends with the last answer.
Rounds interleave the transports; each round's figure is the median of its requests.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.report import median_and_range, write_report

Ask = Callable[[bytes], list[Any]]
_HOST, _KEY, _METHOD = "127.0.0.1", b"benchmark", "/parts/answer"


class Shape(NamedTuple):
    """Bytes of a request and of its answer, and how often a round asks."""

    request: int
    answer: int
    times: int


SHAPES = {
    "a ping": Shape(32, 32, 200),
    "the seeds' hop": Shape(4 * 350, 4 * 350 * 26, 100),
    "the next hop": Shape(4 * 8_000, 4 * 8_000 * 11, 40),
    "feature rows": Shape(4 * 30_000, 256 * 30_000, 8),
}


def _answer(request: Any, answers: dict[int, bytes]) -> bytes:
    return answers[len(request)]


# gRPC, with bytes in place of messages.
def serve_grpc(port: int, answers: dict[int, bytes]) -> None:
    """Serves until it is killed."""
    import grpc

    def answer(request: bytes, _context: Any) -> bytes:
        return _answer(request, answers)

    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("parts", {"answer": handler})])
    server.add_insecure_port(f"{_HOST}:{port}")
    server.start()
    server.wait_for_termination()


@contextmanager
def ask_grpc(ports: Sequence[int]) -> Iterator[Ask]:
    """Yields what asks all servers."""
    import grpc

    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(f"{_HOST}:{port}", options=options) for port in ports]
    for channel in channels:
        grpc.channel_ready_future(channel).result(20)
    calls = [channel.unary_unary(_METHOD) for channel in channels]

    def ask(request: bytes) -> list[bytes]:
        return [answer.result() for answer in [call.future(request) for call in calls]]

    yield ask
    for channel in channels:
        channel.close()


# multiprocessing.connection: framed messages on sockets, in the standard library.
def serve_connection(port: int, answers: dict[int, bytes]) -> None:
    """Serves one client until it leaves."""
    with Listener((_HOST, port), authkey=_KEY) as listener, listener.accept() as link:
        _without_delay(link)
        while True:
            try:
                link.send_bytes(_answer(link.recv_bytes(), answers))
            except (EOFError, ConnectionError):
                return


@contextmanager
def ask_connection(ports: Sequence[int]) -> Iterator[Ask]:
    """Yields what asks all servers."""
    links: list[Connection] = [_retried(lambda port=port: Client((_HOST, port), authkey=_KEY)) for port in ports]

    for link in links:
        _without_delay(link)

    def ask(request: bytes) -> list[bytes]:
        for link in links:
            link.send_bytes(request)
        return [link.recv_bytes() for link in links]

    yield ask
    for link in links:
        link.close()


def _without_delay(link: Connection) -> None:
    """Has `link` send at once: a message goes out in two writes, of which the second waits 40 ms by default."""
    with socket.socket(fileno=os.dup(link.fileno())) as same:
        same.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


# ZeroMQ: messages on sockets that connect again by themselves.
def serve_zmq(port: int, answers: dict[int, bytes]) -> None:
    """Serves until it is killed."""
    import zmq

    with zmq.Context() as context, context.socket(zmq.REP) as link:
        link.bind(f"tcp://{_HOST}:{port}")
        while True:
            link.send(_answer(link.recv(), answers), copy=False)


@contextmanager
def ask_zmq(ports: Sequence[int]) -> Iterator[Ask]:
    """Yields what asks all servers."""
    import zmq

    context = zmq.Context()
    links = [context.socket(zmq.REQ) for _ in ports]
    for link, port in zip(links, ports, strict=True):
        link.connect(f"tcp://{_HOST}:{port}")

    def ask(request: bytes) -> list[Any]:
        for link in links:
            link.send(request, copy=False)
        return [link.recv(copy=False).buffer for link in links]

    yield ask
    context.destroy(linger=0)


# torch RPC: a fixed world of processes, which call each other's functions by pickled name.
_TENSORS: dict[int, Any] = {}


def answer_tensor(request: Any) -> Any:
    """Returns the tensor that answers a request of such a length."""
    return _TENSORS[len(request)]


def serve_torch(port: int, answers: dict[int, bytes], rank: int = 0, world: int = 0) -> None:
    """Serves until the world ends."""
    import torch
    from torch.distributed import rpc

    _TENSORS.update({size: torch.frombuffer(bytearray(answer), dtype=torch.uint8) for size, answer in answers.items()})
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://{_HOST}:{port}")
    rpc.init_rpc(f"server{rank}", rank=rank, world_size=world, rpc_backend_options=options)
    rpc.shutdown()


@contextmanager
def ask_torch(ports: Sequence[int]) -> Iterator[Ask]:
    """Yields what asks all servers."""
    import torch
    from torch.distributed import rpc

    world, names = len(ports) + 1, [f"server{rank}" for rank in range(1, len(ports) + 1)]
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://{_HOST}:{ports[0]}")
    rpc.init_rpc("client", rank=0, world_size=world, rpc_backend_options=options)

    def ask(request: bytes) -> list[Any]:
        sent = torch.frombuffer(bytearray(request), dtype=torch.uint8)
        return [answer.wait() for answer in [rpc.rpc_async(name, answer_tensor, args=(sent,)) for name in names]]

    yield ask
    rpc.shutdown()


TRANSPORTS: dict[str, tuple[Callable[..., None], Callable[[Sequence[int]], Any]]] = {
    "gRPC": (serve_grpc, ask_grpc),
    "multiprocessing.connection": (serve_connection, ask_connection),
    "ZeroMQ": (serve_zmq, ask_zmq),
    "torch RPC": (serve_torch, ask_torch),
}


@contextmanager
def started(name: str, servers: int, answers: dict[int, bytes]) -> Iterator[Ask]:
    """Yields what asks all servers by one transport; they are processes of their own."""
    context, (serve, asking) = multiprocessing.get_context("spawn"), TRANSPORTS[name]
    ports = [_free_port() for _ in range(servers)]
    if serve is serve_torch:
        given = [(ports[0], answers, rank, servers + 1) for rank in range(1, servers + 1)]
    else:
        given = [(port, answers) for port in ports]
    processes = [context.Process(target=serve, args=args, daemon=True) for args in given]
    for process in processes:
        process.start()
    try:
        with asking(ports) as ask:
            yield ask
    finally:
        for process in processes:
            process.join(1)
            process.kill()


def _seconds(ask: Ask, request: bytes, shape: Shape) -> float:
    for _ in range(3):
        assert {len(answer) for answer in ask(request)} == {shape.answer}
    found = []
    for _ in range(shape.times):
        begin = perf_counter()
        ask(request)
        found.append(perf_counter() - begin)
    return statistics.median(found)


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def _retried(connect: Callable[[], Any]) -> Any:
    """Returns a connection to a server that may yet have to start."""
    end = perf_counter() + 20
    while True:
        try:
            return connect()
        except ConnectionError:
            if perf_counter() > end:
                raise


def main() -> None:
    """Prints a table: milliseconds until the last of the answers, median and range of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transports", nargs="+", choices=list(TRANSPORTS), default=list(TRANSPORTS))
    parser.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    options = parser.parse_args()
    answers = {shape.request: os.urandom(shape.answer) for shape in SHAPES.values()}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in options.transports}
    with ExitStack() as all_started:
        asks = {name: all_started.enter_context(started(name, options.servers, answers)) for name in found}
        for _ in range(options.rounds):
            for name, ask in asks.items():
                found[name].append({shape: _seconds(ask, bytes(size.request), size) for shape, size in SHAPES.items()})
    table = Table("transport", *(f"{name}, ms" for name in SHAPES), title=f"{options.servers} servers")
    for name, rounds in found.items():
        table.add_row(name, *(median_and_range([1e3 * one[shape] for one in rounds]) for shape in SHAPES))
    Console(width=140, highlight=False).print(table)
    if options.json:
        write_report(options.json, servers=options.servers, seconds=found)


if __name__ == "__main__":
    main()
