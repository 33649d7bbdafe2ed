"""Transports: for each what serves answers that are there already, and what asks several servers at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Client, Connection, Listener
from time import perf_counter
from typing import Any

Ask = Callable[[bytes], list[Any]]
HOST = "127.0.0.1"
_KEY, _METHOD = b"benchmark", "/parts/answer"


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
    server.add_insecure_port(f"{HOST}:{port}")
    server.start()
    server.wait_for_termination()


@contextmanager
def ask_grpc(ports: Sequence[int]) -> Iterator[Ask]:
    """Yields what asks all servers."""
    import grpc

    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(f"{HOST}:{port}", options=options) for port in ports]
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
    with Listener((HOST, port), authkey=_KEY) as listener, listener.accept() as link:
        _without_delay(link)
        while True:
            try:
                link.send_bytes(_answer(link.recv_bytes(), answers))
            except (EOFError, ConnectionError):
                return


@contextmanager
def ask_connection(ports: Sequence[int]) -> Iterator[Ask]:
    """Yields what asks all servers."""
    links: list[Connection] = [_retried(lambda port=port: Client((HOST, port), authkey=_KEY)) for port in ports]

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
        link.bind(f"tcp://{HOST}:{port}")
        while True:
            link.send(_answer(link.recv(), answers), copy=False)


@contextmanager
def ask_zmq(ports: Sequence[int]) -> Iterator[Ask]:
    """Yields what asks all servers."""
    import zmq

    context = zmq.Context()
    links = [context.socket(zmq.REQ) for _ in ports]
    for link, port in zip(links, ports, strict=True):
        link.connect(f"tcp://{HOST}:{port}")

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
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://{HOST}:{port}")
    rpc.init_rpc(f"server{rank}", rank=rank, world_size=world, rpc_backend_options=options)
    rpc.shutdown()


@contextmanager
def ask_torch(ports: Sequence[int]) -> Iterator[Ask]:
    """Yields what asks all servers."""
    import torch
    from torch.distributed import rpc

    world, names = len(ports) + 1, [f"server{rank}" for rank in range(1, len(ports) + 1)]
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://{HOST}:{ports[0]}")
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


def _retried(connect: Callable[[], Any]) -> Any:
    """Returns a connection to a server that may yet have to start."""
    end = perf_counter() + 20
    while True:
        try:
            return connect()
        except ConnectionError:
            if perf_counter() > end:
                raise
