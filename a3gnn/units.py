"""Text for people: sizes (`4GiB`), durations (`10min`), counts with their nouns, and printable file names."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence

from a3gnn.errors import UsageError

_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
# A letter alone is a power of 1024, as in docker, systemd and Slurm.
_SIZES |= {unit[0]: _SIZES[unit] for unit in ("kib", "mib", "gib", "tib")}
#: Sizes must be below this many bytes, because arrays and the system count them in int64.
TOO_LARGE = 2**63
#: Examples in messages.
_SIZE, _DURATION = "512MiB or 4GiB, for example", "90s, 10min or 1h30m, for example"
#: A hundred years; waits of over 292 years overflow the system's int64 nanoseconds.
_LONGEST_S = 100 * 365 * 86400
#: Most names and most faults that a message lists, and most characters of another program's text in one: a few lines of
#: a console.
MOST_NAMED, MOST_FAULTS, MOST_CHARACTERS = 10, 5, 300
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def parse_size(text: str, *, needs_unit: bool = False) -> int:
    """Returns the bytes of `text`: 4GB is 4 * 10**9; 4GiB, 4G and 4g are 4 * 2**30; a bare number is bytes.

    Args:
        text: A number, and a unit in upper or lower case.
        needs_unit: Refuses a bare number, by which people mean MiB or GiB.

    Raises:
        UsageError: `text` is not a size, is not positive, or is 2**63 bytes or more.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].lower() not in _SIZES or (needs_unit and not match[2]):
        raise UsageError(
            "a size is a number with a unit (B, kB, MB, GB, TB, or KiB, MiB, GiB, TiB, in short K, M, G, T), got "
            f"{text!r}; write {_SIZE}"
        )
    size = float(match[1]) * _SIZES[match[2].lower()]
    if size >= TOO_LARGE:
        raise UsageError(f"a size must be below {TOO_LARGE // 2**40:,} TiB, got {text!r}; write {_SIZE}")
    if round(size) <= 0:
        raise UsageError(f"a size must be positive, got {text!r}; write {_SIZE}")
    return round(size)


def parse_duration(text: str) -> float:
    """Returns the seconds that `text` means: numbers with s, min, h or d, such as 90s, 10min or 1h30m.

    Raises:
        UsageError: `text` is not a duration, or is not positive.
    """
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)", text.lower())
    whole = "".join(number + unit for number, unit in parts)
    if not parts or whole != re.sub(r"\s", "", text.lower()) or any(unit not in _SECONDS for _, unit in parts):
        raise UsageError(f"a duration is numbers with units (s, min, h or d), got {text!r}; write {_DURATION}")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds <= 0:
        raise UsageError(f"a duration must be positive, got {text!r}; write {_DURATION}")
    if seconds > _LONGEST_S:
        raise UsageError(f"a duration must be at most {_LONGEST_S / 86400:,.0f}d, got {text!r}; write {_DURATION}")
    return seconds


def parse_budget(text: str) -> float | int:
    """Returns the budget that `text` means: trials (int) for a bare number, else the seconds (float) of a duration.

    Raises:
        UsageError: `text` is neither, or not positive.
    """
    if re.fullmatch(r"[0-9]{1,18}", text) and int(text) > 0:  # more digits are no number of trials
        return int(text)
    try:
        return float(parse_duration(text))
    except UsageError as error:
        raise UsageError(f"a budget is a duration such as 10min or a positive number of trials: {error}") from error


def format_size(size: float) -> str:
    """Returns `size` bytes in the largest binary unit that keeps it at one or more, to three digits: `1.50 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    digits = 0 if unit == "B" or size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{size:.{digits}f} {unit}"


def format_duration(seconds: float) -> str:
    """Returns `seconds` for people: `0.4 s`, `12 s`, `3 min 20 s`, `1 h 5 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def short_duration(seconds: float) -> str:
    """Returns `seconds` as the value of an option, rounded up to two digits or a whole minute: `90s`, `12min`, `3h`."""
    if seconds <= 90:
        return f"{math.ceil(seconds)}s"
    minutes = math.ceil(seconds / 60)
    step = 10 if minutes > 100 else 1
    return f"{math.ceil(minutes / step) * step}min" if minutes < 300 else f"{math.ceil(minutes / 60)}h"


def format_seconds(seconds: float) -> str:
    """Returns `seconds` with three digits below a minute, for figures that are compared: `0.414 s`, `3 min 20 s`."""
    return f"{seconds:.3g} s" if seconds < 60 else format_duration(seconds)


def count(number: int, noun: str, plural: str = "") -> str:
    """Returns `number` with its noun: `1 trial`, `3 trials`; `plural` is for irregular nouns."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def some_of(names: Sequence[object]) -> str:
    """Returns the first names, and how many others there are: `a, b and 3 more`."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(map(str, names[:MOST_NAMED]))}{more}"


def printable(text: str) -> str:
    """Returns `text` with a replacement character for each byte of a file name that is not UTF-8, such as of Latin-1.

    Python keeps such bytes as lone surrogates, which can be neither printed, drawn nor stored in a database.
    """
    return os.fsencode(text).decode("utf-8", "replace")
