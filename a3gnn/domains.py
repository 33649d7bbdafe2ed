"""Domains of fields; the error for a refused value states the rule, the value and the remedy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from a3gnn.checks import whole_number
from a3gnn.errors import ConfigError, unknown_name


@dataclass(frozen=True, slots=True)
class Whole:
    """Integers of at least `least`."""

    least: int
    remedy: str

    def check(self, name: str, value: Any) -> None:
        """Checks that the field `name` may have `value`.

        Raises:
            ConfigError: `value` is not an integer, or is less than `least`.
        """
        whole_number(name, value, self.least, self.remedy, kind=int, error=ConfigError)


class WholeOrTask(Whole):
    """Integers of at least `least`, or None for the task's value."""

    __slots__ = ()

    def check(self, name: str, value: Any) -> None:
        """Checks that the field `name` may have `value`.

        Raises:
            ConfigError: `value` is neither None nor an integer, or is less than `least`.
        """
        if value is not None:
            super().check(name, value)


class Size(Whole):
    """Whole numbers of bytes; users write them with units."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Real:
    """Finite numbers >= `least`, or > `least` if that is excluded."""

    least: float
    remedy: str
    excluded: bool = False

    def check(self, name: str, value: Any) -> None:
        """Checks that the field `name` may have `value`.

        Raises:
            ConfigError: `value` is not finite, or too small.
        """
        if not (math.isfinite(value) and (value > self.least if self.excluded else value >= self.least)):
            sign = ">" if self.excluded else ">="
            raise ConfigError(f"{name} must be finite and {sign} {self.least:g}, got {value}; {self.remedy}")


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of the names `choices`."""

    choices: tuple[str, ...]

    def check(self, name: str, value: Any) -> None:
        """Checks that the field `name` may have `value`.

        Raises:
            ConfigError: `value` is none of the names; the message has the nearest.
        """
        if value not in self.choices:
            raise ConfigError(str(unknown_name(name, value, self.choices)))


Domain = Whole | Real | OneOf
