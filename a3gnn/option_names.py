"""Names options in messages: as arguments of Python functions, or as flags of the command line.

The same code raises errors for both. `option("memory_limit", "4GiB")` is memory_limit='4GiB' for callers of `tune`, and
--memory-limit 4GiB on the command line.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

#: Whether messages name flags; one value suffices because a process has one interface in use at a time.
_flags = False
#: The flag of each argument of the running command, as it was typed.
_typed: Mapping[str, str] = {}
#: The running command and its words, as they were typed.
_words: tuple[str, ...] = ()


@contextmanager
def as_flags(flags: bool = True) -> Iterator[None]:
    """Names options as flags (False: as arguments) inside the context, in every thread."""
    global _flags, _typed, _words
    before, _flags, _typed, _words = (_flags, _typed, _words), flags, {}, ()
    try:
        yield
    finally:
        _flags, _typed, _words = before


def name_as_typed(flags: Mapping[str, Iterable[str]], words: Iterable[str], command: str = "") -> None:
    """Names each argument by its flag in `words`, or else by its first flag, until `as_flags` ends.

    Args:
        flags: All flags of each argument.
        words: The words of the command line after the command.
        command: The command's name.
    """
    global _typed, _words
    words = list(words)
    _words = (command, *words)
    typed = {word.partition("=")[0] for word in words}
    ordered = {name: sorted(own, key=lambda flag: flag not in typed) for name, own in flags.items()}
    _typed = {name: own[0] for name, own in ordered.items() if own}


def typed(flag: str) -> bool:
    """Returns whether the running command line has the word `flag`."""
    return flag in _words


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


def program() -> str:
    """Returns how a shell calls this a3gnn: by its name, or by its path if PATH does not lead to it."""
    own, found = Path(sys.executable).parent / "a3gnn", shutil.which("a3gnn")
    if not own.exists():
        return "a3gnn" if found else f"{shlex.quote(sys.executable)} -m a3gnn"
    if found is not None and Path(found).samefile(own):
        return "a3gnn"
    return shlex.quote(os.path.relpath(own) if own.is_relative_to(Path.cwd()) else str(own))


def again(**changed: object) -> str:
    """Returns a line for a shell: the running command with other values of the arguments `changed`; "" without one.

    The line begins with a line break, so that it ends a message.
    """
    if not (_flags and _words):
        return ""
    flags = {option(name) for name in changed}
    words, skips = [], False
    for word in _words:
        name, equals, _ = word.partition("=")
        if skips or name in flags:
            skips = not skips and not equals and changed.get(_argument(name)) is not True
            continue
        words.append(word)
    return f"\n{program()} {shlex.join(words)} {options(**changed)}"


def _argument(flag: str) -> str:
    """Returns the argument of a long flag that names it by its own name."""
    return flag.removeprefix("--").replace("-", "_")
