"""A knob, declared once: everything about a field of `TrainConfig` but its name and type.

Checks, canonical forms, keys, the search space, the command line, text and the surrogate's columns derive from it.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from a3gnn.domains import Domain, OneOf, Real, Size, Whole, WholeOrTask
from a3gnn.errors import ConfigError, UsageError
from a3gnn.search_values import IdleAt, SearchValues
from a3gnn.units import parse_size
from a3gnn.where import NEVER, Where

if TYPE_CHECKING:
    from a3gnn.setting import Setting

#: How the command line writes None, which stands for what the task has.
TASKS = "task"

Scale = Literal["log2", "linear", "choice"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Phrase:
    """How a knob is shown in a line of text.

    Attributes:
        place: Its position in the line; phrases are sorted by it.
        words: A format string with {} for the value; one that starts with a space continues the phrase before it.
        when: Where it is shown; None: where the value is not the default.
        names: What text calls the choices, in their order; empty if it calls them by their values.
    """

    place: int
    words: str
    when: Where | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Knob:
    """One dimension of the design space: a field of `TrainConfig`, and the values of it that a search tries.

    Attributes:
        name: The field.
        default: What a PyG user has without tuning.
        domain: All values that the field may have.
        help: What it is, in one or a few sentences.
        values: What a search tries, in order; in `TrainConfig`, where no setting is known.
        at: The values in a setting; None: the same.
        scale: How numbers are spaced, or `choice` for names.
        idle: Where all of its values run identically, so that the default stands for them.
        idle_at: The same in a setting, which the search space knows and `TrainConfig` does not; None: `idle`.
        learns: Where its value changes the content of mini-batches, and so what is learnt.
        later: Whether it came later than the first stored profiles: keys leave it out at its default, so that those
            stored before still name the same configuration.
        show: How text shows it.
    """

    name: str
    default: Any
    domain: Domain
    help: str
    values: tuple[Any, ...]
    at: SearchValues | None
    scale: Scale
    idle: Where
    idle_at: IdleAt | None
    learns: Where
    later: bool
    show: Phrase

    def within(self, setting: Setting) -> Self:
        """Returns the knob with the values that a search tries in `setting`, and idle where it is there."""
        values = self.values if self.at is None else self.at(self.values, setting)
        return dataclasses.replace(self, values=values, idle=self.idle_at(setting) if self.idle_at else self.idle)

    def settled(self, fields: Mapping[str, Any]) -> Any:
        """Returns the value that stands for all that run identically where the knobs have the values `fields`."""
        if self.idle.holds(fields):
            return self.default
        return float(fields[self.name]) if isinstance(self.domain, Real) else fields[self.name]

    def coded(self, value: Any) -> Any:
        """Returns `value` as columns hold it, which have one type each: None, the task's, is 0 there."""
        return 0 if value is None else value

    def index(self, value: Any) -> int:
        """Returns the position of `value`; one that is not in the space is refused."""
        try:
            return self.values.index(value)
        except ValueError:
            raise ConfigError(f"{self.name} must be one of {list(self.values)} in this space, got {value!r}") from None

    def parse(self, value: Any) -> Any:
        """Returns `value`, which may be text from the command line, with the type of the knob's values.

        Raises:
            ConfigError: It is not a number, or not a whole one, where the knob's values are.
        """
        if isinstance(self.domain, OneOf):
            return str(value)
        if isinstance(self.domain, WholeOrTask) and value in (None, TASKS):
            return None
        if isinstance(self.domain, Size) and isinstance(value, str):
            with suppress(UsageError):  # then it is no number either, or 0
                value = parse_size(value)
        kind = int if isinstance(self.domain, Whole) else float
        try:
            number = float(value)
            if not isinstance(value, bool) and (kind is float or number.is_integer()):
                return value if kind is type(value) else kind(number)
        except (TypeError, ValueError, OverflowError):
            pass
        raise ConfigError(f"{self.name} must be a {'whole ' if kind is int else ''}number, got {value!r}")

    def rounded(self, number: float) -> Any:
        """Returns `number`, which was computed, as a value of this knob."""
        return round(number) if isinstance(self.domain, Whole) else round(float(number), 6)


def knob(
    default: T,
    domain: Domain,
    help: str,
    *,
    show: Phrase,
    search: tuple[T, ...] | None = None,
    at: SearchValues | None = None,
    scale: Literal["log2", "linear"] = "log2",
    idle: Where = NEVER,
    idle_at: IdleAt | None = None,
    learns: Where = NEVER,
    later: bool = True,
) -> T:
    """Returns a dataclass field that carries a `Knob`. Without `search`, all choices are tried, or only the default."""
    choices = domain.choices if isinstance(domain, OneOf) else None
    values = search if search is not None else choices or (default,)
    spaced: Scale = "choice" if choices else scale
    declared = Knob("", default, domain, help, values, at, spaced, idle, idle_at, learns, later, show)
    made: T = dataclasses.field(default=default, metadata={"knob": declared})
    return made


def knobs_of(config: type) -> tuple[Knob, ...]:
    """Returns the knobs that the fields of the dataclass `config` declare, in their order."""
    fields = dataclasses.fields(config)
    return tuple(dataclasses.replace(f.metadata["knob"], name=f.name) for f in fields if "knob" in f.metadata)


def document(config: type, knobs: tuple[Knob, ...]) -> None:
    """Adds the help of `knobs` to the docstring of `config`."""
    rows = [textwrap.fill(f"{k.name}: {k.help}", initial_indent=" " * 4, subsequent_indent=" " * 8) for k in knobs]
    config.__doc__ = "\n".join([inspect.cleandoc(config.__doc__ or ""), "", "Attributes:", *rows])
