"""A condition on knobs, as data: the same code evaluates it for one configuration or for columns of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


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
