"""`VirtualClock`: processes, events and shared bandwidth on a clock that jumps from one event to the next.

It does not use simpy, whose resources are slots and levels. A training iteration is bounded by bandwidth that its users
share, so rates change whenever a flow begins or ends. That would have to be written on top of simpy, and is most of
this module.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from a3gnn.errors import UsageError

#: Share of a flow's bytes that counts as done, because rounding may leave it.
_ROUNDING = 1e-9


class ClockEvent:
    """An event that happens once; processes wait for it by yielding it."""

    __slots__ = ("_waiting", "happened")

    def __init__(self) -> None:
        self.happened = False
        self._waiting: list[Callable[[], None]] = []

    def trigger(self) -> None:
        """Makes it happen, and resumes those that wait."""
        self.happened = True
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

    def then(self, resume: Callable[[], None]) -> None:
        """Calls `resume` once the event has happened, which may be at once."""
        if self.happened:
            resume()
        else:
            self._waiting.append(resume)


Process: TypeAlias = Generator[ClockEvent, None, None]


@dataclass(frozen=True, slots=True, eq=False)
class Bandwidth:
    """A resource shared by flows: each gets an equal rate unless another bound holds it back.

    Attributes:
        name: Name of the resource.
        bytes_per_s: Total rate of all flows.
    """

    name: str
    bytes_per_s: float


@dataclass(slots=True, eq=False)
class _Flow:
    left: float
    cap: float
    uses: Mapping[Bandwidth, float]
    done: ClockEvent
    rate: float = 0.0
    bytes: float = field(init=False)

    def __post_init__(self) -> None:
        self.bytes = self.left


class VirtualClock:
    """Runs processes, which are generators that yield the events they wait for.

    Events at equal times run in the order of their requests, so every run is the same.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._order = count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._flows: list[_Flow] = []
        self._flows_at = 0.0
        self._next_end = 0

    def run(self) -> None:
        """Runs until nothing is due any more."""
        while self._due:
            self.now, _, happen = heapq.heappop(self._due)
            happen()

    def start(self, process: Process) -> ClockEvent:
        """Starts `process` now; returns the event of its end."""
        ended = ClockEvent()

        def resume() -> None:
            for event in process:
                if not event.happened:
                    event.then(resume)
                    return
            ended.trigger()

        resume()
        return ended

    def after(self, seconds: float) -> ClockEvent:
        """Returns an event `seconds` from now."""
        event = ClockEvent()
        heapq.heappush(self._due, (self.now + seconds, next(self._order), event.trigger))
        return event

    def all_of(self, events: Iterable[ClockEvent]) -> ClockEvent:
        """Returns the event of the last of `events`."""
        waited = list(events)
        gathered, left = ClockEvent(), [len(waited)]

        def one() -> None:
            left[0] -= 1
            if not left[0]:
                gathered.trigger()

        if not waited:
            gathered.trigger()
        for event in waited:
            event.then(one)
        return gathered

    def flow(self, size: float, cap: float, uses: Mapping[Bandwidth, float]) -> ClockEvent:
        """Returns the event at which `size` bytes have flowed.

        Args:
            size: Bytes.
            cap: Most bytes per second, if no other flow used the resources.
            uses: The resources, and the bytes of each that a byte of this flow takes.

        Raises:
            UsageError: The flow would never end.
        """
        bound = min([cap, *(resource.bytes_per_s / weight for resource, weight in uses.items() if weight > 0)])
        if not 0 < bound < math.inf:
            raise UsageError(f"a flow needs a finite rate above 0, got {bound} bytes/s by cap {cap} and {dict(uses)}")
        uses = {resource: weight for resource, weight in uses.items() if weight > 0}
        if not uses or size <= 0:
            return self.after(max(size, 0.0) / cap)
        flow = _Flow(size, bound, uses, ClockEvent())
        self._advance()
        self._flows.append(flow)
        self._share()
        return flow.done

    def _advance(self) -> None:
        """Updates all flows by the time since rates changed last."""
        passed = self.now - self._flows_at
        for flow in self._flows:
            flow.left -= flow.rate * passed
        self._flows_at = self.now

    def _share(self) -> None:
        """Sets the rates of all flows, and schedules the next end."""
        set_rates(self._flows)
        self._next_end = next(self._order)
        if self._flows:
            ends = min(flow.left / flow.rate for flow in self._flows)
            this = self._next_end
            heapq.heappush(self._due, (self.now + max(ends, 0.0), this, lambda: self._end(this)))

    def _end(self, asked: int) -> None:
        """Ends the flows that are done, unless rates have changed since this end was scheduled."""
        if asked != self._next_end:
            return
        self._advance()
        done = [flow for flow in self._flows if self._is_done(flow)]
        self._flows = [flow for flow in self._flows if flow not in done]
        self._share()
        for flow in done:
            flow.done.trigger()

    def _is_done(self, flow: _Flow) -> bool:
        """Returns whether only rounding is left of `flow`, either in bytes or in time."""
        return flow.left <= _ROUNDING * flow.bytes or self.now + flow.left / flow.rate <= self.now


def set_rates(flows: list[_Flow]) -> None:
    """Gives each flow the largest rate that takes nothing from a slower one (max-min fairness, progressive filling)."""
    left = {resource: resource.bytes_per_s for flow in flows for resource in flow.uses}
    wanted = dict.fromkeys(left, 0.0)
    for flow in flows:
        flow.rate = flow.cap
        for resource, weight in flow.uses.items():
            wanted[resource] += weight * flow.cap
    if all(wanted[resource] <= capacity for resource, capacity in left.items()):
        return
    rising = list(flows)
    while rising:
        demand = dict.fromkeys(left, 0.0)
        for flow in rising:
            for resource, weight in flow.uses.items():
                demand[resource] += weight
        levels = {resource: left[resource] / demand[resource] for resource in left if demand[resource] > 0}
        level = min(min(levels.values()), min(flow.cap for flow in rising))
        full = {resource for resource, reached in levels.items() if reached <= level * (1 + _ROUNDING)}
        settled = [flow for flow in rising if flow.cap <= level or full & flow.uses.keys()]
        for flow in settled:
            flow.rate = level
            for resource, weight in flow.uses.items():
                left[resource] -= weight * level
        rising = [flow for flow in rising if flow not in settled]


class Slots:
    """A number of places, granted one at a time in the order of the requests."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._asked: list[ClockEvent] = []

    def take(self) -> ClockEvent:
        """Returns the event at which the caller gets a place."""
        event = ClockEvent()
        self._asked.append(event)
        self._serve()
        return event

    def give(self) -> None:
        """Frees a place, or adds one."""
        self._free += 1
        self._serve()

    def _serve(self) -> None:
        while self._free and self._asked:
            self._free -= 1
            self._asked.pop(0).trigger()
