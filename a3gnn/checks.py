"""Checks of arguments, and domains of fields; an error names the argument, the rule, the value and the remedy."""

from __future__ import annotations

import math
import numbers
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from a3gnn.errors import ConfigError, UsageError, unknown_name
from a3gnn.units import TOO_LARGE, format_size, parse_size

#: A smaller limit on a process's memory must lack its unit, because Python alone takes several MiB.
_LEAST_LIMIT = 1 << 20


def whole_number(
    name: str,
    value: Any,
    least: int,
    remedy: str = "",
    *,
    kind: type[Any] = numbers.Integral,
    error: type[UsageError] = UsageError,
) -> int:
    """Returns `value` as an int if it is an integer of at least `least`.

    Args:
        name: Name of the argument in the message.
        value: The value to check.
        least: The smallest allowed value.
        remedy: Advice at the end of the message.
        kind: Types that count as integers: Python's and numpy's, or `int` if JSON must be able to hold the value.
        error: Type of the error.

    Raises:
        UsageError: `value` is not an integer, or is too small.
    """
    if isinstance(value, bool) or not isinstance(value, kind) or value < least:
        raise error(f"{name} must be an integer >= {least}, got {value!r}{remedy and f'; {remedy}'}")
    return int(value)


def real_number(name: str, value: Any, unit: str) -> float:
    """Returns `value` as a float if it is a finite number >= 0; the error names its `unit`.

    Raises:
        UsageError: `value` is something else.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
        raise UsageError(f"{name} must be >= 0 {unit}, got {value!r}")
    return float(value)


def positive_number(name: str, value: Any, what: str) -> float | int:
    """Returns `value` as an int if it has an integer type, else as a float.

    Raises:
        UsageError: `value` is not a positive finite number.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
        raise UsageError(f"{name} must be positive, {what}; got {value!r}")
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def flag(name: str, value: Any) -> bool:
    """Returns `value` as a bool if it is a Python or numpy bool.

    Raises:
        UsageError: `value` is something else.
    """
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def size_or_none(name: str, value: Any) -> int | None:
    """Returns the bytes of `value`, an integer or a text such as 4GiB; None stays None.

    Raises:
        UsageError: `value` is not a size, or not in [1, 2**63).
    """
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return parse_size(value)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
    size = whole_number(name, value, 1, "bytes, or text such as 4GiB; None sets no limit")
    if size >= TOO_LARGE:
        raise UsageError(f"{name} must be below 2**63 bytes, got {size}; None sets no limit")
    return size


def checked_limit(name: str, value: Any) -> int | None:
    """Returns the memory limit `value` in bytes as `size_or_none` does, if a process could keep it.

    Raises:
        UsageError: `value` is not a size, or is less than any process takes, for example because its unit is missing.
    """
    size = size_or_none(name, value)
    if size is not None and size < _LEAST_LIMIT:
        given = repr(value) if isinstance(value, str) else f"{size} B"
        with_unit = isinstance(value, str) and value.strip()[-1].isalpha()
        remedy = "allow more" if with_unit else "write the limit with its unit"
        raise UsageError(
            f"{name} must be at least {format_size(_LEAST_LIMIT)}, got {given}, because a process takes about 200 "
            f"MiB before it trains; {remedy}, such as 4GiB"
        )
    return size


def path_or_none(name: str, value: Any) -> str | os.PathLike[str] | None:
    """Returns `value` if it is a path or None.

    Raises:
        UsageError: `value` is something else.
    """
    if value is not None and not isinstance(value, str | os.PathLike):
        raise UsageError(f"{name} must be a path, got {value!r}")
    return value


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


class WholeOrAll(Whole):
    """Integers of at least `least`, of which one (`a3gnn.knobs.ALL`) means all; users write it `all`."""

    __slots__ = ()


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


@dataclass(frozen=True, slots=True)
class Anything:
    """Whatever a user's search lists, which other code checks."""

    def check(self, name: str, value: Any) -> None:
        """Accepts every value of the field `name`."""


Domain = Whole | Real | OneOf | Anything
