"""Which configurations show what a knob does: every value of the space, each against the default."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from a3gnn.config import TrainConfig
from a3gnn.knobs import Knob
from a3gnn.space import SearchSpace


@dataclass(frozen=True, slots=True)
class Variant:
    """One value of one knob, everything else as in the default; or several knobs together.

    Attributes:
        knob: Its name, or what the combination is of.
        value: What it is set to, for people.
        config: The configuration. Where the knob is idle in the default, another one is changed too, to wake it.
        base: What the knob's own effect is told against: the default, or the default with that other change.
    """

    knob: str
    value: str
    config: TrainConfig
    base: TrainConfig = dataclasses.field(default_factory=TrainConfig)

    def changes(self) -> dict[str, Any]:
        """Returns what differs from the default."""
        fields, default = self.config.to_dict(), TrainConfig().to_dict()
        return {name: value for name, value in fields.items() if value != default[name]}


def single_knobs(space: SearchSpace, only: tuple[str, ...] = (), *, farthest: bool = False) -> list[Variant]:
    """Returns a variant per value of each knob of `space` that runs differently from the default.

    Args:
        space: Says which values there are.
        only: Names of the knobs that are varied; all by default.
        farthest: Whether of each knob only the value that lies farthest from the default's in the list is taken.
    """
    found: dict[str, Variant] = {TrainConfig().key(): Variant("", "", TrainConfig())}
    for knob in space.knobs:
        if not only or knob.name in only:
            own = list(_of_one(knob, space))
            for variant in own[-1:] if farthest else own:
                found.setdefault(variant.config.key(), variant)
    return list(found.values())[1:]


def _of_one(knob: Knob, space: SearchSpace) -> Iterator[Variant]:
    """Yields a variant per value of `knob` other than the default's, in order of their distance from it."""
    base = _awake(knob, space)
    if base is None:
        return
    position = {value: i for i, value in enumerate(knob.values)}
    middle = position.get(knob.default, 0)
    for value in sorted(knob.values, key=lambda one: abs(position[one] - middle)):
        config = base.replace(**{knob.name: value})
        if config.key() != base.key():
            yield Variant(knob.name, str(value), config, base)


def _awake(knob: Knob, space: SearchSpace) -> TrainConfig | None:
    """Returns the default, or where `knob` is idle in it the middle one of the single changes that wake it, if any."""
    default = TrainConfig()
    if not knob.idle.holds(default.to_dict()):
        return default
    for name in sorted(knob.idle.names):
        changed = [default.replace(**{name: value}) for value in space.knob(name).values]
        awake = [config for config in changed if not knob.idle.holds(config.to_dict())]
        if awake:
            return awake[len(awake) // 2]
    return None
