"""Readers of a server, each over connections of its own."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable

from a3gnn.service.event_log import LAST, EventLog


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
