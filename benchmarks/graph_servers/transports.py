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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.graph_servers.carriers import HOST, TRANSPORTS, Ask, serve_torch
from benchmarks.report import median_and_range, write_report


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


@contextmanager
def started(name: str, servers: int, answers: dict[int, bytes]) -> Iterator[Ask]:
    """Yields what asks all servers by one transport; they are processes of their own."""
    context, (serve, asking) = multiprocessing.get_context("spawn"), TRANSPORTS[name]
    ports = [_free_port() for _ in range(servers)]
    if serve is serve_torch:
        given: list[tuple[Any, ...]] = [(ports[0], answers, rank, servers + 1) for rank in range(1, servers + 1)]
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
    with socket.create_server((HOST, 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


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
