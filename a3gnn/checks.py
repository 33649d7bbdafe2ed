"""What people give as arguments, checked: each error names the argument, what it must be, and what it got."""

from __future__ import annotations

import math
import os
from numbers import Integral, Real
from typing import Any

import numpy as np

from a3gnn.errors import UsageError
from a3gnn.units import TOO_LARGE, format_size, parse_size

#: Names of this machine that no other one reaches it by.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: Addresses that stand for all of a machine's.
ANY_ADDRESS = frozenset({"0.0.0.0", "::"})
#: A token of fewer characters can be guessed. Guess: 16 of 64 letters are 96 bits.
_TOKEN_CHARACTERS = 16
#: A header of more is refused by some of what stands between. Guess.
_MOST_TOKEN_CHARACTERS = 1000


def check_address(host: str, token: str | None, variable: str) -> None:
    """Checks that who listens at `host` asks for a token, where other machines reach it.

    Args:
        host: The address, as `--host` gives it.
        token: What requests must carry; None for nothing.
        variable: The environment variable that gives the token.

    Raises:
        UsageError: There is no token, or one that can be guessed or that no request can carry.
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
    """Checks that a request can carry `token`, which errors call `name`, in a header.

    Raises:
        UsageError: It can't.
    """
    if len(token) > _MOST_TOKEN_CHARACTERS or not all("!" <= character <= "~" for character in token):
        raise UsageError(
            f"{name} must be of printable ASCII characters without blanks, {_MOST_TOKEN_CHARACTERS:,} at most; the one "
            f"given has {len(token):,} characters, as requests can't carry it"
        )


def cannot_listen(host: str, port: int, error: Exception) -> UsageError:
    """Returns the error of a server that can't listen there because of `error`."""
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"can't listen at --host {host} --port {port}: {reason}; --port 0 takes a free one")


def shown(host: str, port: int) -> str:
    """Returns the address as people and URLs write it, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


#: A limit on a process's memory below this can only lack its unit: Python alone takes several MiB.
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
    """Returns `value`, an integer, if it is at least `least`.

    Args:
        name: The argument's.
        value: What was given.
        least: The smallest that may be.
        remedy: What to do where it is refused.
        kind: What counts as an integer: Python's and numpy's, or `int` where JSON must be able to hold it.
        error: What is raised.

    Raises:
        UsageError: It is something else, or less.
    """
    if isinstance(value, bool) or not isinstance(value, kind) or value < least:
        raise error(f"{name} must be an integer >= {least}, got {value!r}{remedy and f'; {remedy}'}")
    return int(value)


def real_number(name: str, value: Any, unit: str) -> float:
    """Returns `value`, a finite number >= 0 in `unit`s.

    Raises:
        UsageError: It is something else.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise UsageError(f"{name} must be >= 0 {unit}, got {value!r}")
    return float(value)


def positive_number(name: str, value: Any, what: str) -> float | int:
    """Returns `value` as an int if it is a whole number, else as a float.

    Raises:
        UsageError: It is no number, or not positive and finite.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise UsageError(f"{name} must be positive, {what}; got {value!r}")
    return int(value) if isinstance(value, Integral) else float(value)


def flag(name: str, value: Any) -> bool:
    """Returns `value`, a bool of Python's or numpy's.

    Raises:
        UsageError: It is something else.
    """
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def size_or_none(name: str, value: Any) -> int | None:
    """Returns bytes, given as an integer or as text such as 4GiB; None stays None.

    Raises:
        UsageError: It is something else, or not positive.
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
    """Returns `value` as `size_or_none` does, if a process could keep to so little.

    Raises:
        UsageError: It is something else, or less than any process takes, as where a unit was forgotten.
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
    """Returns `value`, a path; None stays None.

    Raises:
        UsageError: It is something else.
    """
    if value is not None and not isinstance(value, str | os.PathLike):
        raise UsageError(f"{name} must be a path, got {value!r}")
    return value
