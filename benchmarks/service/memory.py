"""How much a server's memory grows per request, once it has answered many."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.service.readers import answers
from benchmarks.service.server import Server

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
    looks: list[tuple[int, int]] = [(0, server.anonymous_bytes)]
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK_S):
            looks.append((len(answered), server.anonymous_bytes))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        asyncio.run(answers(server.port, readers, seconds, path, answered))
    finally:
        ended.set()
        looking.join()
    counts, held = np.array(looks, dtype=np.float64).T
    slope = float(np.polyfit(counts, held, 1)[0])
    per_s = len(answered) / seconds
    return Growth(len(answered), per_s, int(held[0]), int(held[-1]), slope, slope * per_s * 3600)
