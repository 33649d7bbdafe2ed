"""A knob, declared once: everything about a field of `TrainConfig` but its name and type.

Checks, canonical forms, keys, the search space, the command line, text and the surrogate's columns derive from it.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

from a3gnn.checks import Domain, OneOf, Real, Size, Whole, WholeOrAll, WholeOrTask
from a3gnn.errors import ConfigError, UsageError
from a3gnn.setting import Setting
from a3gnn.units import parse_size

#: Text for None on the command line: the task's value.
TASKS = "task"
#: The batch size of the whole graph as one mini-batch, without sampling, and its text. It exceeds every number of
#: seeds, so that arithmetic with it gives one mini-batch of all seeds.
ALL, ALL_TEXT = 2**31 - 1, "all"
Scale = Literal["log2", "linear", "choice"]
T = TypeVar("T")
Values = tuple[Any, ...]
#: Returns the values of a knob to try in a setting, from the values that its declaration lists.
SearchValues = Callable[[Values, Setting], Values]


@dataclass(frozen=True, slots=True)
class Phrase:
    """How a knob is shown in a line of text."""

    place: int  # its position in the line; phrases are sorted by it
    words: str  # a format string with {} for the value; one that starts with a space continues the phrase before it
    when: Where | None = None  # condition on which it is shown; None shows it unless the value is the default
    names: tuple[str, ...] = ()  # names of the choices in text, in their order; empty shows their values


@dataclass(frozen=True, slots=True)
class Knob:
    """One dimension of the design space: a field of `TrainConfig`, and the values of it that a search tries.

    Attributes:
        name: The field.
        default: The value of a PyG user without tuning.
        domain: All values that the field may have.
        help: Description in one or a few sentences.
        values: Values that a search tries, in order. The knobs of `TrainConfig` list them without knowing a setting.
        at: Returns the values for a setting; None keeps `values`.
        scale: How numbers are spaced, or `choice` for names.
        idle: Condition on which all of its values run identically, so that the default stands for them.
        idle_at: Returns a further such condition for a setting, which the search space knows and `TrainConfig` does
            not; None has none.
        learns: Condition on which its value changes the content of mini-batches, and so what is learned.
        later: Whether it was added after the first stored profiles. Keys leave it out at its default, so that older
            keys still name the same configuration.
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
        """Returns the knob with the search values and the idle condition of `setting`."""
        values = self.values if self.at is None else self.at(self.values, setting)
        idle = self.idle | self.idle_at(setting) if self.idle_at else self.idle
        return dataclasses.replace(self, values=values, idle=idle)

    def settled(self, fields: Mapping[str, Any]) -> Any:
        """Returns the canonical value of this knob in a configuration with the values `fields`."""
        if self.idle.holds(fields):
            return self.default
        return float(fields[self.name]) if isinstance(self.domain, Real) else fields[self.name]

    def coded(self, value: Any) -> Any:
        """Returns `value` as columns store it: None, the task's value, is 0, because a column has one type."""
        return 0 if value is None else value

    def stored(self, value: Any) -> Any:
        """Returns `value` as JSON has it: `ALL` as text."""
        return ALL_TEXT if isinstance(self.domain, WholeOrAll) and value == ALL else value

    def loaded(self, value: Any) -> Any:
        """Returns the value that `stored` returned as `value`."""
        return ALL if isinstance(self.domain, WholeOrAll) and value == ALL_TEXT else value

    def text(self, value: Any) -> Any:
        """Returns `value` as the command line writes it: names of None, the task's value, and of `ALL`."""
        return TASKS if value is None else str(value) if isinstance(value, tuple) else self.stored(value)

    def index(self, value: Any) -> int:
        """Returns the position of `value`; raises `ConfigError` if the space does not contain it."""
        try:
            return self.values.index(value)
        except ValueError:
            raise ConfigError(f"{self.name} must be one of {list(self.values)} in this space, got {value!r}") from None

    def parse(self, value: Any) -> Any:
        """Returns `value`, which may be text from the command line, with the type of the knob's values.

        Raises:
            ConfigError: The knob's values are numbers and `value` is not, or they are whole and `value` is not.
        """
        if isinstance(self.domain, OneOf):
            return str(value)
        if isinstance(self.domain, WholeOrTask) and value in (None, TASKS):
            return None
        value = self.loaded(value)
        if isinstance(self.domain, Size) and isinstance(value, str):
            with suppress(UsageError):  # 0 is converted below, and other text is refused there
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
        """Returns a computed `number`, rounded to a value of this knob."""
        return round(number) if isinstance(self.domain, Whole) else round(float(number), 6)


@dataclass(frozen=True, slots=True)
class Where:
    """A condition that holds if any of its knobs has one of its values; `~` negates it, `|` joins two.

    Attributes:
        cases: Knobs, each with the values at which the condition holds.
        negated: Whether it holds exactly if no case and no other condition does.
        others: Other conditions; it also holds if one of them does.
    """

    cases: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    negated: bool = False
    others: tuple[Where, ...] = ()

    def __invert__(self) -> Self:
        return type(self)(self.cases, not self.negated, self.others)

    def __or__(self, other: Where) -> Self:
        return type(self)(others=(self, other))

    @property
    def names(self) -> frozenset[str]:
        """The knobs that it depends on."""
        return frozenset(name for name, _ in self.cases).union(*(other.names for other in self.others))

    def varied(self, values: Mapping[str, Values]) -> frozenset[str]:
        """Returns the knobs on which it depends where each knob has only the given `values`."""
        own = {name for name, ones in self.cases if len(values[name]) > 1 and not set(ones).isdisjoint(values[name])}
        return frozenset(own).union(*(other.varied(values) for other in self.others))

    def holds(self, values: Mapping[str, Any]) -> Any:
        """Returns whether it holds: a bool, or an array of them if the knobs' `values` are arrays of equal length.

        A condition without cases gives a single bool for arrays too.
        """
        found: Any = False
        for name, ones in self.cases:
            for one in ones:
                found = found | (values[name] == one)
        for other in self.others:
            found = found | other.holds(values)
        return found != self.negated


def where(**cases: Any) -> Where:
    """Returns the condition that any of the knobs in `cases` has the given value, or one of a tuple of values."""
    return Where(tuple((name, ones if isinstance(ones, tuple) else (ones,)) for name, ones in cases.items()))


NEVER = where()
ALWAYS = ~NEVER
#: Returns the condition on which a knob is idle in a setting.
IdleAt = Callable[[Setting], Where]


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


def document(config: type, knobs: tuple[Knob, ...], *others: str) -> None:
    """Adds the help of `knobs` to the docstring of `config`, and `others`, such as `name: Its meaning.`."""
    texts = (*(f"{k.name}: {k.help}" for k in knobs), *others)
    rows = [textwrap.fill(one, initial_indent=" " * 4, subsequent_indent=" " * 8) for one in texts]
    config.__doc__ = "\n".join([inspect.cleandoc(config.__doc__ or ""), "", "Attributes:", *rows])
