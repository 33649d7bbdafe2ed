"""What other people notice while many connections are open: idle ones, slow ones, and readers of events.

    python -m benchmarks.service.crowds [--idle 1010] [--slow 500] [--reading 1000] [--files 1024] [--seconds 10]
        [--rounds 2] [--json FILE]

The server may have so many open files (`ulimit -n`), as a soft and a hard limit. Each crowd connects and stays:

nobody: no connection, to compare.
idle: connections without a byte.
slow: half send a request's head and half a body, a byte per second.
reading: each follows the events of a study that waits, and reads.

Meanwhile a visitor asks over new connections, one request after the other: for the list, a study, its front, its
trials and the health. The memory is the server's anonymous memory before a crowd, at its most, and after it has left.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from a3gnn.service.client import Client
from a3gnn.service.jobs.home import EventLog
from benchmarks.report import write_report
from benchmarks.service.server import Server, fill, serving

_PATHS = ("/healthz", "/studies", "/studies/1", "/studies/1/front", "/studies/1/trials", "/")
#: Seconds between two requests of the visitor.
_PAUSE_S = 0.02
#: Seconds after a crowd has left until the memory is read.
_CALM_S = 3.0
#: Seconds in which a crowd comes: its first requests, all at once, are answered.
_COME_S = 3.0
_HEAD = b"GET /studies HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
_BODY = (
    b"POST /studies HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
)


class Visit(NamedTuple):
    """An answer that the visitor got.

    Attributes:
        at_s: Seconds after the crowd has come.
        seconds: From connecting to the last byte.
        status: The HTTP status; 0 if the connection was closed.
    """

    at_s: float
    seconds: float
    status: int


class Crowded(NamedTuple):
    """What a crowd did.

    Attributes:
        crowd: Its kind.
        connections: Connections that were open when the visitor began.
        visits: Requests of the visitor.
        refused: Those that were not answered with 200.
        median_s: Median seconds of an answer.
        p99_s: The 99th percentile.
        most_s: The slowest answer.
        arriving_s: The slowest answer while the crowd came; the figures above are of the time after that.
        before_bytes: The server's memory before.
        most_bytes: Its memory at the end of the visits.
        after_bytes: Its memory after the crowd has left.
    """

    crowd: str
    connections: int
    visits: int
    refused: int
    median_s: float
    p99_s: float
    most_s: float
    arriving_s: float
    before_bytes: int
    most_bytes: int
    after_bytes: int


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def visit(port: int, path: str, first: float) -> Visit:
    """Asks over a new connection, at a time since `first`."""
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
    try:
        writer.write(head.encode())
        answer = await reader.read()
    except OSError:
        answer = b""
    finally:
        writer.close()
    return Visit(begun - first, time.perf_counter() - begun, int(answer[9:12] or 0))


async def visits(port: int, seconds: float) -> list[Visit]:
    """Returns the answers that one visitor gets."""
    first, found = time.perf_counter(), []
    while time.perf_counter() < first + seconds:
        for path in _PATHS:
            found.append(await visit(port, path, first))
            await asyncio.sleep(_PAUSE_S)
    return found


async def opened(port: int, number: int) -> list[Connection]:
    """Returns so many new connections; those that are refused are left out."""
    found = []
    for _ in range(number):
        with suppress(OSError):
            found.append(await asyncio.open_connection("127.0.0.1", port))
    return found


async def idle(one: Connection, place: int) -> None:
    """Sends nothing."""


async def slow(one: Connection, place: int) -> None:
    """Sends a head or a body, a byte per second."""
    _, writer = one
    with suppress(OSError):
        writer.write(_BODY if place % 2 else _HEAD)
        while True:
            await asyncio.sleep(1.0)
            writer.write(b"a")
            await writer.drain()


def reading(study: int) -> Callable[[Connection, int], Awaitable[None]]:
    """Returns what a reader does: follows the events of a study."""

    async def read(one: Connection, place: int) -> None:
        reader, writer = one
        with suppress(OSError):
            writer.write(f"GET /studies/{study}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            while await reader.read(1 << 16):
                continue

    return read


def visited(port: int, seconds: float) -> list[Visit]:
    """Does `visits` in this process."""
    return asyncio.run(visits(port, seconds))


async def crowd(
    server: Server,
    visitor: Executor,
    name: str,
    number: int,
    act: Callable[[Connection, int], Awaitable[None]],
    seconds: float,
) -> Crowded:
    """Returns what the visitor, a process of its own, got beside a crowd."""
    await visits(server.port, 2.0)
    before = server.anonymous_bytes
    connections = await opened(server.port, number)
    tasks = [asyncio.ensure_future(act(one, place)) for place, one in enumerate(connections)]
    found = await asyncio.get_running_loop().run_in_executor(visitor, visited, server.port, seconds)
    most = server.anonymous_bytes
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for _, writer in connections:
        writer.close()
    await asyncio.sleep(_CALM_S)
    await visits(server.port, 1.0)
    took = np.array([one.seconds for one in found if one.at_s > _COME_S])
    arriving = max((one.seconds for one in found if one.at_s <= _COME_S), default=0.0)
    median, p99 = np.percentile(took, [50, 99])
    refused = sum(one.status != 200 for one in found)
    memory = before, most, server.anonymous_bytes
    late = float(median), float(p99), float(took.max()), arriving
    return Crowded(name, len(connections), len(found), refused, *late, *memory)


def visiting() -> Executor:
    """Returns a process for the visitor, whose loop the crowd must not hold up."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


def main() -> None:
    """Measures each crowd, and prints a line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("idle", 1010), ("slow", 500), ("reading", 1000), ("files", 1024), ("rounds", 2)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the crowd's own files
    folder = Path(tempfile.mkdtemp(prefix="a3gnn-crowds-"))
    found: list[dict[str, Any]] = []
    try:
        fill(folder, 20, 60)
        EventLog(folder / "studies" / "1" / "events.jsonl").append("status", status="finished")
        with serving(folder, at_once=0, files=asked.files) as server, visiting() as visitor:
            visitor.submit(visited, server.port, 1.0).result()  # starts the process
            study = Client(f"http://127.0.0.1:{server.port}").start("synthetic:nodes=300", budget=2).id
            acts = {
                "nobody": (0, idle),
                "idle": (asked.idle, idle),
                "slow": (asked.slow, slow),
                "reading": (asked.reading, reading(study)),
            }
            for _ in range(asked.rounds):
                for name, (number, act) in acts.items():
                    one = asyncio.run(crowd(server, visitor, name, number, act, asked.seconds))
                    found.append(one._asdict())
                    print(
                        f"{name:<8} {one.connections:>5} connections: {one.visits} visits, {one.refused} refused, "
                        f"median {one.median_s * 1e3:.1f} ms, p99 {one.p99_s * 1e3:.1f} ms, most "
                        f"{one.most_s * 1e3:.1f} ms, {one.arriving_s * 1e3:.0f} ms as they came; memory "
                        f"{one.before_bytes >> 20}, {one.most_bytes >> 20}, {one.after_bytes >> 20} MiB",
                        flush=True,
                    )
    finally:
        shutil.rmtree(folder)
    if asked.json is not None:
        arguments = {name: value for name, value in vars(asked).items() if name != "json"}
        write_report(asked.json, arguments=arguments, found=found)


if __name__ == "__main__":
    main()
