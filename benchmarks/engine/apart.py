"""What needs a new process: the first mini-batch after start-up, and memory while training."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.engine.client import Engine
from benchmarks.engine.memory import watched
from benchmarks.engine.workers.work import Unavailable, Work

_LOOK_S = 0.25


@dataclass(frozen=True, slots=True)
class FirstBatch:
    """Seconds from asking for mini-batches to holding the first, imports done and the graph in RAM.

    Attributes:
        missing: Why there is nothing, or "".
        variant: The fastest variant.
        seconds: Seconds of each new process.
    """

    missing: str = ""
    variant: str = ""
    seconds: list[float] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of a process tree while it trains.

    Attributes:
        missing: Why there is nothing, or "".
        variant: The variant that trained.
        peak: Peak memory, files included.
        peak_anonymous: Peak anonymous memory.
        by_epoch: Anonymous memory after each epoch, if epochs were counted.
    """

    missing: str = ""
    variant: str = ""
    peak: int = 0
    peak_anonymous: int = 0
    by_epoch: list[int] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return asdict(self)


def first_batch(name: str, python: Path, folder: Path, work: Work, repeats: int) -> FirstBatch:
    """Returns the fastest variant without worker processes, each in a new process.

    The first process of all is left out: it may compile kernels, which later ones find in the cache.
    """
    times: dict[str, list[float]] = {}
    try:
        for repeat in range(repeats + 1):
            with Engine(name, python) as engine:
                variants = [each for each in engine.ask("variants", work=work.to_dict()) if _alone(each)]
                variant = variants[repeat % len(variants)] if repeat else variants[0]
                engine.ask("open", folder=str(folder))
                seconds = engine.ask("start", key="first", work=work.to_dict(), variant=variant)
            if repeat:
                times.setdefault(variant, []).append(seconds)
    except Unavailable as reason:
        return FirstBatch(missing=str(reason))
    best = min(times, key=lambda variant: statistics.median(times[variant]))
    return FirstBatch(variant=best, seconds=times[best])


def training_memory(
    name: str, python: Path, folder: Path, work: Work, variant: str, batches: int, epochs: int = 0
) -> MemoryUse:
    """Returns the memory of a new process that trains `batches` mini-batches, or `epochs` whole epochs."""
    by_epoch = []
    try:
        with Engine(name, python) as engine:
            engine.ask("open", folder=str(folder))
            with watched(engine.resident, _LOOK_S) as seen:
                engine.ask("start", key="memory", work=work.to_dict(), variant=variant)
                if not epochs:
                    engine.ask("measure", key="memory", count=batches, skip=0)
                for _ in range(epochs):
                    engine.ask("epochs", key="memory", count=1)
                    by_epoch.append(engine.resident().anonymous)
                seen.append(engine.resident())
    except Unavailable as reason:
        return MemoryUse(missing=str(reason))
    return MemoryUse("", variant, max(one.total for one in seen), max(one.anonymous for one in seen), by_epoch)


def _alone(variant: str) -> bool:
    return "worker" not in variant or "0 workers" in variant
