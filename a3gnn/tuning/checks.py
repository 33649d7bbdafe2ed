"""Numbers that people give, checked: each error names the option, what it must be, and what it got."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from a3gnn.errors import UsageError


def whole_number(option: str, value: Any, least: int) -> int:
    """Returns `value` as an int if it is one, and at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise UsageError(f"{option} must be an integer >= {least}, got {value!r}")
    return int(value)


def real_number(option: str, value: Any, unit: str) -> float:
    """Returns `value` as a float if it is a finite number >= 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise UsageError(f"{option} must be >= 0 {unit}, got {value!r}")
    return float(value)


def positive_number(option: str, value: Any, what: str) -> float | int:
    """Returns `value` as an int if it is a whole number, else as a float, if it is positive and finite."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise UsageError(f"{option} must be positive, {what}; got {value!r}")
    return int(value) if isinstance(value, Integral) else float(value)


def positive_bytes(option: str, value: Any) -> int | None:
    """Returns `value` as an int if it is a positive number of bytes; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise UsageError(f"{option} must be a positive number of bytes, or text such as 4GiB; got {value!r}")
    return int(value)
