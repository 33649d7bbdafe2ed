"""Measures one row on one graph, and, apart from the rows, start-up and memory.

Of a row, each contestant's fastest variant is found first; then contestants alternate.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.engine.client import Engine, watched
from benchmarks.engine.rows import CONTESTANTS, Contestant, Row
from benchmarks.engine.summary import stage_medians
from benchmarks.engine.workers.work import Unavailable, Work

# Two batches fill buffers and thread pools; a worker process or thread holds up to two prepared in advance.
_WARM_UP, _PREPARED_PER_WORKER = 2, 2


@dataclass(frozen=True, slots=True)
class Effort:
    """How long is measured.

    Attributes:
        rounds: Measurements of each contestant.
        batches: Mini-batches per round.
        screening: Mini-batches per variant, before the fastest is kept.
        starts: New processes per engine that are timed to their first mini-batch.
        memory: Mini-batches that are trained to measure memory.
        shares: Mini-batches that the shares of the machine's limits are measured over.
    """

    rounds: int = 5
    batches: int = 20
    screening: int = 4
    starts: int = 5
    memory: int = 40
    shares: int = 30


@dataclass(slots=True)
class Outcome:
    """One contestant's result for a row on a graph.

    Attributes:
        missing: Why there is nothing, or "".
        variant: The fastest variant.
        screened: Median milliseconds of each variant that did not fail.
        rounds: Columns of each round: ms, nodes, edges, loss, and stages where they were timed.
        stages: Median milliseconds of sample, gather and model, run one after the other without workers.
    """

    missing: str = ""
    variant: str = ""
    screened: dict[str, float] = field(default_factory=dict)
    rounds: list[dict[str, list[Any]]] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def ms(self) -> list[list[float]]:
        """Milliseconds of every batch, by round."""
        return [one["ms"] for one in self.rounds]


def measure(
    row: Row, batch_size: int, engines: Mapping[str, Engine | str], effort: Effort, say: Callable[[str], None]
) -> dict[Contestant, Outcome]:
    """Returns each contestant's outcome; they are measured one at a time, in an order that rotates.

    Args:
        row: What is measured.
        batch_size: Seeds per mini-batch.
        engines: By name: one with the graph open, or why there is none.
        effort: How long.
        say: Takes a line on progress.
    """
    outcomes: dict[Contestant, Outcome] = {}
    ready: list[Contestant] = []
    for label in row.contestants:
        name, style = CONTESTANTS[label]
        engine, work = engines[name], replace(row.work, style=style, batch_size=batch_size)
        outcomes[label] = Outcome(missing=engine) if isinstance(engine, str) else _screened(engine, label, work, effort)
        if not outcomes[label].missing:
            ready.append(label)
        say(f"  {row.label}: {label}: {outcomes[label].missing or outcomes[label].variant}")
    for number in range(effort.rounds):
        first = number % max(1, len(ready))
        for label in ready[first:] + ready[:first]:
            _add_round(engines[CONTESTANTS[label][0]], label, outcomes[label], effort)
    for label in ready:
        engine = engines[CONTESTANTS[label][0]]
        if isinstance(engine, Engine) and engine.alive:
            engine.ask("stop", key=label)
        outcomes[label].stages = outcomes[label].stages or stage_medians(outcomes[label].rounds)
    return outcomes


def _add_round(engine: Engine | str, label: str, outcome: Outcome, effort: Effort) -> None:
    """Adds a round to `outcome`; one that fails in a round is missing, since its rounds would not pair up."""
    if outcome.missing or isinstance(engine, str):
        return
    try:
        skip = _skip(outcome.variant)
        outcome.rounds.append(engine.ask("measure", key=label, count=effort.batches, skip=skip))
        engine.settle()
    except Unavailable as reason:
        outcome.missing, outcome.rounds = str(reason), []


def _screened(engine: Engine, label: str, work: Work, effort: Effort) -> Outcome:
    """Returns an outcome without rounds; the fastest variant stays open as session `label`."""
    outcome = Outcome()
    try:
        variants = engine.ask("variants", work=work.to_dict())
    except Unavailable as reason:
        return Outcome(missing=str(reason))
    reasons = []
    for variant in variants:
        try:
            found = _tried(engine, work, variant, effort.screening)
        except Unavailable as reason:
            reasons.append(f"{variant}: {reason}")
            continue
        outcome.screened[variant] = statistics.median(found["ms"])
        outcome.stages = outcome.stages or stage_medians([found])
    if not outcome.screened:
        return Outcome(missing="; ".join(reasons))
    outcome.variant = min(outcome.screened, key=outcome.screened.__getitem__)
    try:
        engine.ask("start", key=label, work=work.to_dict(), variant=outcome.variant)
    except Unavailable as reason:
        return Outcome(missing=str(reason))
    engine.settle()
    return outcome


def _tried(engine: Engine, work: Work, variant: str, count: int) -> dict[str, list[Any]]:
    engine.ask("start", key="screening", work=work.to_dict(), variant=variant)
    try:
        found: dict[str, list[Any]] = engine.ask("measure", key="screening", count=count, skip=_skip(variant))
        return found
    finally:
        if engine.alive:
            engine.ask("stop", key="screening")
            engine.settle()


def _skip(variant: str) -> int:
    """Returns the number of mini-batches to skip per round: those prepared while others were measured, and warm-up."""
    workers = next((count for count in (1, 2) if f"{count} worker" in variant), 0)
    return _WARM_UP + _PREPARED_PER_WORKER * workers


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
