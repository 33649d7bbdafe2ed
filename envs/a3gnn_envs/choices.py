"""Configurations as choices of one knob after the other, numbered alike in every setting and every space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import KNOBS
from a3gnn.knobs import NEVER, Knob
from a3gnn.search_values import CACHE_SHARES
from a3gnn.setting import Setting
from a3gnn.space import Rows, SearchSpace

#: Slots of knobs whose declaration does not list the values of settings.
_SLOTS = {"cache_bytes": 1 + len(CACHE_SHARES)}


def _ordered() -> Iterator[Knob]:
    """Yields `KNOBS`, but each after those that decide whether it is idle, and last those that the setting decides."""
    left = [*KNOBS]
    while left:
        names = {knob.name for knob in left}
        free = [knob for knob in left if not knob.idle.names & names]
        chosen = next((knob for knob in free if knob.idle_at is None), free[0])
        left.remove(chosen)
        yield chosen


#: The knobs in the order in which they are chosen.
ORDER: tuple[Knob, ...] = tuple(_ordered())
#: Slots of each knob of `ORDER`, int64, shape (n_knobs,): a slot stands for a value.
WIDTHS: NDArray[np.int64] = np.array([_SLOTS.get(knob.name, len(knob.values)) for knob in ORDER], dtype=np.int64)
#: First slot of each knob among the slots of all knobs, and the number of these, int64, shape (n_knobs + 1,).
STARTS: NDArray[np.int64] = np.concatenate([[0], np.cumsum(WIDTHS)])
NUM_KNOBS, NUM_SLOTS, MOST_SLOTS = len(ORDER), int(STARTS[-1]), int(WIDTHS.max())
#: Each knob's name, values and number of slots. A policy works only with the signature of its training.
SIGNATURE: tuple[str, ...] = tuple(f"{k.name} {k.values} {width}" for k, width in zip(ORDER, WIDTHS, strict=True))
_PARTS, _PARTITIONER = ([knob.name for knob in ORDER].index(name) for name in ("num_partitions", "partitioner"))


def slots_of(step: int) -> slice:
    """Returns the slots of the knob that `step` chooses, among the slots of all knobs."""
    return slice(int(STARTS[step]), int(STARTS[step + 1]))


@dataclass(frozen=True)
class Choices:
    """The legal choices in a space, knob after knob in `ORDER`, and the rows that they make.

    A value takes the slot of the full space's value. A value that the full space lacks takes the slot of the nearest
    one, on a logarithmic scale, and an unlisted name takes the last slot. Several values of one slot are drawn from.

    Attributes:
        setting: The task, the graph and the machine.
        space: The configurations; any values of any knobs.
    """

    setting: Setting
    space: SearchSpace

    @classmethod
    def full(cls, setting: Setting) -> Self:
        """Returns the choices of the default space of `setting`."""
        return cls(setting, SearchSpace.of(setting))

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """Which slots the space has a value for, bool, shape (`NUM_SLOTS`,)."""
        mask = np.zeros(NUM_SLOTS, dtype=np.bool_)
        for step, own in enumerate(self._slots):
            mask[STARTS[step] + own] = True
        return mask

    def legal(self, step: int, chosen: Rows, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns which slots of the next knob may be chosen, at least one, bool, shape (n, `MOST_SLOTS`).

        Values that the space lacks may not. Of an idle knob only the first may, as in `SearchSpace.canonical`; of
        partitions only those that can be made, unless none can.

        Args:
            step: Position of the knob in `ORDER`.
            chosen: Slots of the knobs before it, int64, shape (n, `step` or more).
            mask: Slots to choose from, bool, shape (n, `NUM_SLOTS`) or (`NUM_SLOTS`,); within `Choices.mask`.
        """
        mask = np.broadcast_to(mask, (len(chosen), NUM_SLOTS))
        legal = np.zeros((len(chosen), MOST_SLOTS), dtype=np.bool_)
        own = mask[:, slots_of(step)]
        legal[:, : own.shape[1]] = own
        if step == _PARTS:
            other = mask[:, None, slots_of(_PARTITIONER)]
            _narrow(legal, np.asarray((self._made & other).any(axis=2)))
        elif step == _PARTITIONER:
            _narrow(legal, self._made[chosen[:, _PARTS]])
        condition = self._knobs[step].idle
        if condition != NEVER:
            values = {name: self._values[place][chosen[:, place]] for name, place in self._before(step).items()}
            idle = np.broadcast_to(condition.holds(values), len(chosen))
            first = own.argmax(axis=1)
            legal[idle] = np.arange(MOST_SLOTS) == first[idle, None]
        return legal

    def rows(self, chosen: Rows, random: np.random.Generator | None = None) -> Rows:
        """Returns the canonical rows of `space` for slots of all knobs, int64, shape (n, n_knobs).

        Args:
            chosen: int64, shape (n, `NUM_KNOBS`), as `legal` allows.
            random: Draws among several values of one slot; None takes the first.
        """
        rows = np.zeros((len(chosen), len(self.space.knobs)), dtype=np.int64)
        for step, own in enumerate(self._slots):
            first = np.searchsorted(own[self._sorted[step]], chosen[:, step])
            if random is not None and len(own) > len(set(own.tolist())):
                counts = np.bincount(own, minlength=int(WIDTHS[step]))[chosen[:, step]]
                first += random.integers(0, counts)
            rows[:, self._columns[step]] = self._sorted[step][first]
        return self.space.canonical(rows)

    def slots(self, rows: Rows) -> Rows:
        """Returns the slots of `rows` (n, n_knobs) of the space, in `ORDER`, int64, shape (n, `NUM_KNOBS`)."""
        found = [own[rows[:, column]] for own, column in zip(self._slots, self._columns, strict=True)]
        return np.stack(found, axis=1)

    @property
    def draws(self) -> bool:
        """Whether a slot has several values."""
        return any(len(own) > len(set(own.tolist())) for own in self._slots)

    @cached_property
    def _columns(self) -> list[int]:
        """The space's column of each knob of `ORDER`."""
        return [self.space.names.index(knob.name) for knob in ORDER]

    @cached_property
    def _knobs(self) -> list[Knob]:
        """The space's knobs in `ORDER`."""
        return [self.space.knobs[column] for column in self._columns]

    @cached_property
    def _known(self) -> list[tuple[Any, ...]]:
        """The values that each knob's slots stand for in the setting."""
        found = []
        for knob in ORDER:
            own = knob.within(self.setting).values
            declared = set(own) <= set(knob.values)
            found.append(knob.values if declared else own + knob.values[len(own) :])
        return found

    @cached_property
    def _slots(self) -> list[NDArray[np.int64]]:
        """The slot of each of a knob's values, int64, shape (n_values,)."""
        return [
            np.array([_nearest(value, known, int(width)) for value in knob.values], dtype=np.int64)
            for knob, known, width in zip(self._knobs, self._known, WIDTHS, strict=True)
        ]

    @cached_property
    def _sorted(self) -> list[NDArray[np.int64]]:
        """The positions of each knob's values, sorted by slot."""
        return [np.argsort(own, kind="stable") for own in self._slots]

    @cached_property
    def _values(self) -> list[NDArray[Any]]:
        """The value that each slot stands for, coded: the space's first one of it, or else the setting's."""
        found = []
        for knob, known, own, width in zip(self._knobs, self._known, self._slots, WIDTHS, strict=True):
            values = [known[min(slot, len(known) - 1)] for slot in range(int(width))]
            for place in reversed(range(len(own))):
                values[own[place]] = knob.values[place]
            found.append(np.array([knob.coded(value) for value in values]))
        return found

    @cached_property
    def _made(self) -> NDArray[np.bool_]:
        """Whether a partitioner can make a number of parts, by their slots, bool, shape (n_parts, n_partitioners)."""
        made = np.zeros((WIDTHS[_PARTS], WIDTHS[_PARTITIONER]), dtype=np.bool_)
        for i, parts in enumerate(self._values[_PARTS].tolist()):
            for j, name in enumerate(self._values[_PARTITIONER].tolist()):
                refused = any(name == other and parts >= least for other, least in self.space.unmade_parts)
                made[i, j] = parts == 1 or (parts <= self.setting.graph.num_nodes and not refused)
        return made

    def _before(self, step: int) -> dict[str, int]:
        """Returns the positions of the knobs on which the idle condition of a step's knob depends, by name."""
        wanted = self._knobs[step].idle.names
        return {knob.name: place for place, knob in enumerate(ORDER[:step]) if knob.name in wanted}


def _narrow(legal: NDArray[np.bool_], to: NDArray[np.bool_]) -> None:
    """Keeps of `legal` (n, `MOST_SLOTS`) only `to` (n, fewer), in rows where that leaves a slot."""
    narrowed = legal[:, : to.shape[1]] & to
    some = narrowed.any(axis=1)
    legal[some, : to.shape[1]] = narrowed[some]


def _nearest(value: Any, known: tuple[Any, ...], width: int) -> int:
    if value in known:
        return min(known.index(value), width - 1)
    numbers = [one for one in known[:width] if one is not None and not isinstance(one, str)]
    if value is None or isinstance(value, str) or not numbers:
        return min(len(known), width) - 1
    closest = min(numbers, key=lambda one: abs(np.log1p(one) - np.log1p(value)))
    return known.index(closest)
