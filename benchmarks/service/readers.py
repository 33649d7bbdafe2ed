"""Readers that ask without a pause, and how the server's memory grows under them."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from a3gnn.service.jobs.home import LAST, EventLog
from benchmarks.engine.client import watched
from benchmarks.service.server import Server


class Reader:
    """One connection, over which requests are made one after the other."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> None:
        """Connects."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)

    async def send(self, path: str) -> None:
        """Asks, and reads as far as the answer's headers."""
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200"), head
        self.length = int(head.partition(b"content-length:")[2].split(b"\r")[0] or 0)

    async def seconds(self, path: str) -> float:
        """Returns how long an answer takes."""
        begun = time.perf_counter()
        await self.send(path)
        await self.reader.readexactly(self.length)
        return time.perf_counter() - begun


async def answers(port: int, readers: int, seconds: float, path: Callable[[], str], found: list[float]) -> None:
    """Adds the seconds of every answer, as it comes, to readers that ask without a pause."""
    end = time.monotonic() + seconds

    async def ask() -> None:
        reader = Reader(port)
        await reader.open()
        while time.monotonic() < end:
            found.append(await reader.seconds(path()))
        reader.writer.close()

    await asyncio.gather(*(ask() for _ in range(readers)))


async def fan_out(port: int, subscribers: int, seconds: float, log: EventLog) -> list[float]:
    """Returns the seconds from each event until each subscriber has read it."""
    late: list[float] = []
    ready = asyncio.Semaphore(0)

    async def follow() -> None:
        reader = Reader(port)
        await reader.open()
        await reader.send("/studies/1/events")
        ready.release()
        async for line in reader.reader:
            if line.startswith(b"data: "):
                late.append(time.time() - json.loads(line[6:])["time"])
            if b'"finished"' in line:
                break
        reader.writer.close()

    tasks = [asyncio.create_task(follow()) for _ in range(subscribers)]
    for _ in tasks:
        await ready.acquire()
    for number in range(int(seconds * 10)):
        log.append("line", text=f"line {number}")
        await asyncio.sleep(0.1)
    log.append("status", status="finished")
    await asyncio.gather(*tasks)
    return late


async def once_a_second(port: int, readers: int, seconds: float) -> None:
    """Has readers ask for a study once a second, as scripts do that wait for it."""

    async def ask() -> None:
        reader = Reader(port)
        await reader.open()
        await asyncio.sleep(random.random())
        for _ in range(int(seconds)):
            await reader.seconds("/studies/2")
            await asyncio.sleep(1)

    await asyncio.gather(*(ask() for _ in range(readers)))


async def watch(port: int, study: int) -> None:
    """Follows a study until it ends as its page does, which reads the views after each trial, and asks once a second.

    The page itself asks for nothing else.
    """
    events, other = Reader(port), Reader(port)
    await events.open()
    await other.open()
    turn, ended = asyncio.Lock(), asyncio.Event()

    async def ask() -> None:
        await asyncio.sleep(random.random())
        while not ended.is_set():
            async with turn:
                await other.seconds(f"/studies/{study}")
            await asyncio.sleep(1)

    asking = asyncio.create_task(ask())
    await events.send(f"/studies/{study}/events")
    kind = ""
    async for line in events.reader:
        kind = line[7:].decode().strip() if line.startswith(b"event: ") else kind
        if not line.startswith(b"data: "):
            continue
        if kind == "trial":
            async with turn:
                await other.seconds(f"/studies/{study}/views")
        elif kind == "status" and json.loads(line[6:])["status"] in LAST:
            break
    ended.set()
    await asking
    for reader in (events, other):
        reader.writer.close()


#: Seconds between two looks at the memory.
_LOOK_S = 0.25


class Growth(NamedTuple):
    """What memory did in a window of requests.

    Attributes:
        requests: Of the window.
        per_s: Requests per second.
        held_bytes: Anonymous memory as the window began.
        end_bytes: The same as it ended.
        bytes_per_request: Slope of the line through all looks at it, by least squares.
        hour_bytes: What that comes to in an hour of as many requests per second.
    """

    requests: int
    per_s: float
    held_bytes: int
    end_bytes: int
    bytes_per_request: float
    hour_bytes: float


def growth(server: Server, readers: int, seconds: float, path: Callable[[], str], warm_up: int) -> Growth:
    """Returns how memory grows while readers ask without a pause, after `warm_up` requests of the same kind."""
    before: list[float] = []
    while len(before) < warm_up:
        asyncio.run(answers(server.port, readers, 1.0, path, before))
    answered: list[float] = []
    begun = (0, server.anonymous_bytes)
    with watched(lambda: (len(answered), server.anonymous_bytes), _LOOK_S) as looks:
        asyncio.run(answers(server.port, readers, seconds, path, answered))
    counts, held = np.array([begun, *looks], dtype=np.float64).T
    slope = float(np.polyfit(counts, held, 1)[0])
    per_s = len(answered) / seconds
    return Growth(len(answered), per_s, int(held[0]), int(held[-1]), slope, slope * per_s * 3600)
