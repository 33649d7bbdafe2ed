"""How messages name an option: as the argument that Python's functions have, or as the command line's flag.

The same code raises for both. What it calls `option("memory_limit", "4GiB")` is memory_limit='4GiB' to those who call
`tune`, and --memory-limit 4GiB to those who run a3gnn.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

#: Whether the command line is what people use: one at a time is, in a process.
_flags = False
#: The flag of each argument that the command at work takes, as it was typed.
_typed: Mapping[str, str] = {}


@contextmanager
def as_flags(flags: bool = True) -> Iterator[None]:
    """Has options named as the command line has them meanwhile, in every thread."""
    global _flags, _typed
    before, _flags, _typed = (_flags, _typed), flags, {}
    try:
        yield
    finally:
        _flags, _typed = before


def name_as_typed(flags: Mapping[str, Iterable[str]], words: Iterable[str]) -> None:
    """Has arguments named, until `as_flags` ends, by the flag that is among `words`, or else by their first one.

    Args:
        flags: Of each argument, all flags that it has.
        words: The command line.
    """
    global _typed
    typed = {word.partition("=")[0] for word in words}
    ordered = {name: sorted(own, key=lambda flag: flag not in typed) for name, own in flags.items()}
    _typed = {name: own[0] for name, own in ordered.items() if own}


def flags_are_used() -> bool:
    """Returns whether options are named as the command line has them now."""
    return _flags


def as_keywords() -> AbstractContextManager[None]:
    """Has options named as Python, and the service's requests, have them meanwhile, in every thread."""
    return as_flags(False)


def option(name: str, value: object = None) -> str:
    """Returns how people give the argument `name`, with a value if there is one."""
    if isinstance(value, float):
        value = f"{value:g}"
    elif isinstance(value, str | Path):
        value = shlex.quote(str(value)) if _flags else repr(str(value))
    if not _flags:
        return name if value is None else f"{name}={value}"
    flag = _typed.get(name, f"--{name.replace('_', '-')}")
    return flag if value is None or value is True else f"{flag} {value}"


def options(**given: object) -> str:
    """Returns how people give several arguments together, such as out='runs/a', resume=True."""
    return (" " if _flags else ", ").join(option(name, value) for name, value in given.items())


def call() -> str:
    """Returns what people repeat to go on: a call, or a command."""
    return "command" if _flags else "call"
