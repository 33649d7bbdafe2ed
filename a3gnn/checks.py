"""Checks of arguments, and of the address and token of a server; errors name the argument, the rule and the value."""

from __future__ import annotations

import math
import os
from numbers import Integral, Real
from typing import Any

import numpy as np

from a3gnn.errors import UsageError
from a3gnn.units import TOO_LARGE, format_size, parse_size

#: Names of this machine by which no other machine can reach it.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: Addresses that stand for all addresses of a machine.
ANY_ADDRESS = frozenset({"0.0.0.0", "::"})
#: A token of fewer characters can be guessed. Guess: 16 of 64 letters are 96 bits.
_TOKEN_CHARACTERS = 16
#: Some proxies refuse a longer header. Guess.
_MOST_TOKEN_CHARACTERS = 1000
#: A smaller limit on a process's memory must lack its unit, because Python alone takes several MiB.
_LEAST_LIMIT = 1 << 20


def whole_number(
    name: str,
    value: Any,
    least: int,
    remedy: str = "",
    *,
    kind: type[Any] = Integral,
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
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise UsageError(f"{name} must be >= 0 {unit}, got {value!r}")
    return float(value)


def positive_number(name: str, value: Any, what: str) -> float | int:
    """Returns `value` as an int if it has an integer type, else as a float.

    Raises:
        UsageError: `value` is not a positive finite number.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise UsageError(f"{name} must be positive, {what}; got {value!r}")
    return int(value) if isinstance(value, Integral) else float(value)


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
            f"{name} must be at least {format_size(_LEAST_LIMIT)}, got {given}; a process takes about 200 MiB before "
            f"it trains anything; {remedy}, such as 4GiB"
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


def check_address(host: str, token: str | None, variable: str) -> None:
    """Checks that a server requires a token if other machines can reach it.

    Args:
        host: The address of `--host`.
        token: The token that requests must carry, or None.
        variable: The environment variable that can hold the token.

    Raises:
        UsageError: The token is missing, can be guessed, or does not fit in a request.
    """
    if host not in LOOPBACK and token is None:
        raise UsageError(
            f"--host {host} can be reached by other machines, which needs a --token (or {variable}) that "
            "requests must carry; without --host the server answers this machine alone"
        )
    if token is not None and len(token) < _TOKEN_CHARACTERS:
        raise UsageError(
            f"--token must have {_TOKEN_CHARACTERS} characters or more, got {len(token)}; python -c "
            "'import secrets; print(secrets.token_urlsafe())' makes one"
        )
    if token is not None:
        check_token(token, f"--token (or {variable})")


def check_token(token: str, name: str) -> None:
    """Checks that a request can carry `token` in a header; the error calls it `name`.

    Raises:
        UsageError: The token is too long, or has characters that a header can't carry.
    """
    if len(token) > _MOST_TOKEN_CHARACTERS or not all("!" <= character <= "~" for character in token):
        raise UsageError(
            f"{name} must be of printable ASCII characters without blanks, {_MOST_TOKEN_CHARACTERS:,} at most; the one "
            f"given has {len(token):,} characters, as requests can't carry it"
        )


def cannot_listen(host: str, port: int, error: Exception) -> UsageError:
    """Returns the error of a server that can't listen at the address because of `error`."""
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"can't listen at --host {host} --port {port}: {reason}; --port 0 takes a free one")


def shown(host: str, port: int) -> str:
    """Returns the address as in a URL, with IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
