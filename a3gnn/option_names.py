"""Names options in messages: as arguments of Python functions, or as flags of the command line.

The same code raises errors for both. `option("memory_limit", "4GiB")` is memory_limit='4GiB' for callers of `tune`, and
--memory-limit 4GiB on the command line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

#: Whether messages name flags; one value suffices because a process has one interface in use at a time.
_flags = False
#: The flag of each argument of the running command, as it was typed.
_typed: Mapping[str, str] = {}


@contextmanager
def as_flags(flags: bool = True) -> Iterator[None]:
    """Names options as flags (False: as arguments) inside the context, in every thread."""
    global _flags, _typed
    before, _flags, _typed = (_flags, _typed), flags, {}
    try:
        yield
    finally:
        _flags, _typed = before


def name_as_typed(flags: Mapping[str, Iterable[str]], words: Iterable[str]) -> None:
    """Names each argument by its flag in `words`, or else by its first flag, until `as_flags` ends.

    Args:
        flags: All flags of each argument.
        words: The words of the command line.
    """
    global _typed
    typed = {word.partition("=")[0] for word in words}
    ordered = {name: sorted(own, key=lambda flag: flag not in typed) for name, own in flags.items()}
    _typed = {name: own[0] for name, own in ordered.items() if own}


def flags_are_used() -> bool:
    """Returns whether options are named as flags now."""
    return _flags


def as_keywords() -> AbstractContextManager[None]:
    """Names options as arguments of Python and of the service's requests inside the context, in every thread."""
    return as_flags(False)


def option(name: str, value: object = None) -> str:
    """Returns the argument `name` as users write it, with `value` if given."""
    if isinstance(value, float):
        value = f"{value:g}"
    elif isinstance(value, str | Path):
        value = shlex.quote(str(value)) if _flags else repr(str(value))
    if not _flags:
        return name if value is None else f"{name}={value}"
    flag = _typed.get(name, f"--{name.replace('_', '-')}")
    return flag if value is None or value is True else f"{flag} {value}"


def options(**given: object) -> str:
    """Returns several arguments as users write them together, such as out='runs/a', resume=True."""
    return (" " if _flags else ", ").join(option(name, value) for name, value in given.items())


def call() -> str:
    """Returns the word for what users repeat to go on: `command` or `call`."""
    return "command" if _flags else "call"
