"""What values a field may have: each domain states its rule, the value and the remedy where a value is refused."""

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
        """Refuses any other `value` of the field `name`.

        Raises:
            ConfigError: It is no integer, or less.
        """
        whole_number(name, value, self.least, self.remedy, kind=int, error=ConfigError)


class WholeOrTask(Whole):
    """Integers of at least `least`, or None: whatever the task has."""

    __slots__ = ()

    def check(self, name: str, value: Any) -> None:
        """Refuses any other `value` of the field `name`.

        Raises:
            ConfigError: It is neither None nor an integer, or less.
        """
        if value is not None:
            super().check(name, value)


class Size(Whole):
    """Whole numbers of bytes, which people write with units."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Real:
    """Finite numbers of at least `least`, or above it where that is excluded."""

    least: float
    remedy: str
    excluded: bool = False

    def check(self, name: str, value: Any) -> None:
        """Refuses any other `value` of the field `name`.

        Raises:
            ConfigError: It is not finite, or less.
        """
        if not (math.isfinite(value) and (value > self.least if self.excluded else value >= self.least)):
            sign = ">" if self.excluded else ">="
            raise ConfigError(f"{name} must be finite and {sign} {self.least:g}, got {value}; {self.remedy}")


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some names."""

    choices: tuple[str, ...]

    def check(self, name: str, value: Any) -> None:
        """Refuses any other `value` of the field `name`.

        Raises:
            ConfigError: It is none of the names; the message has the nearest.
        """
        if value not in self.choices:
            raise ConfigError(str(unknown_name(name, value, self.choices)))


Domain = Whole | Real | OneOf
