"""The folder of compiled kernels: named by a hash of what they are compiled from, held while in use, removed by age.

Numba compiles a kernel again after an edit of the file that the kernel is in. It does not see edits of other files,
whose functions and constants are compiled into the kernel. A folder per hash of all these files never holds code of
another version of them, and code that is compiled for one branch is still there after a look at another one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from a3gnn.storage.atomic import release, try_lock, wait_for_lock

#: Such a folder; with the ending, one that is being removed.
KERNEL_FOLDER = re.compile(r"a3gnn-[0-9a-f]{32}(\.removed)?")
#: Seconds after which an unused folder is removed. Guess: compiling again takes a minute, and a folder some 10 MB.
UNUSED_SECONDS = 7 * 86400.0
#: Locked, shared, by all processes that use the folder; its time of change is their last use, to the hour.
_IN_USE = "in-use.lock"
#: Locked by the process that adds a kernel.
_ADDING = "adding.lock"
_HOUR_S = 3600.0
#: Tries to lock a folder that others are removing. Guess: each removes it once.
_TRIES = 20

#: Files that import `njit` from here are compiled; what this file imports is not.
_DECORATOR = "storage/compiled.py"
#: This file names the decorator, and compiles nothing.
_THIS = "storage/kernel_folder.py"
#: A file that has this word defines compiled functions. Searched as bytes: a regex takes fifty times as long.
_COMPILED = b"njit"
#: The module, and what is imported from it.
_IMPORT = re.compile(
    rb"^[ \t]*(?:from|import)[ \t]+(a3gnn[\w.]*)(?:[ \t]+import[ \t]+(\([^)]*\)|[^\n]*))?",
    re.MULTILINE,
)

#: The open lock file of each folder that this process holds.
_held: dict[Path, int] = {}


def kernel_sources(package: Path) -> list[str]:
    """Returns the files that decide what kernels compile to, as paths from `package` on.

    These are the files that define compiled functions, and the files of ours that those import, directly or not.

    Args:
        package: The folder a3gnn.
    """
    modules = dict(_modules(package, ""))
    modules.pop(_THIS, None)
    found, pending = {_DECORATOR}, [path for path, text in modules.items() if _COMPILED in text]
    while pending:
        path = pending.pop()
        if path in modules and path not in found:
            found.add(path)
            pending += _imported(modules[path])
    return sorted(found)


def _modules(folder: Path | str, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Yields path, after `prefix`, and content of each module; one that can't be read can't be imported either."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield prefix + entry.name, _content(entry.path)
            elif entry.name.isidentifier() and entry.name != "__pycache__" and entry.is_dir():
                yield from _modules(entry.path, f"{prefix}{entry.name}/")


def _content(path: Path | str) -> bytes:
    """Returns what a file holds, nothing if it can't be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _imported(text: bytes) -> Iterator[str]:
    """Yields the paths of the modules of ours that `text` may import; some of them do not exist."""
    for module, names in _IMPORT.findall(text):
        path = "/".join(module.decode().split(".")[1:])
        yield f"{path}.py"
        yield f"{path}/__init__.py"
        for name in re.findall(rb"\w+", names):
            yield f"{path}/{name.decode()}.py".lstrip("/")


def folder_name(package: Path, sources: Sequence[str], versions: Sequence[str]) -> str:
    """Returns the name of the folder for kernels compiled from what `sources` hold now.

    Args:
        package: The folder a3gnn.
        sources: Of `kernel_sources`.
        versions: Whatever else decides the machine code and is not in numba's own key, which has the processor and the
            types of the arguments.
    """
    content = hashlib.blake2b(digest_size=16)
    parts = [text.encode() for text in versions]
    for path in sources:
        parts += [path.encode(), _content(package / path)]
    for part in parts:
        content.update(len(part).to_bytes(8, "little") + part)
    return f"a3gnn-{content.hexdigest()}"


def hold(folder: Path) -> None:
    """Makes `folder`, unless it exists, and keeps it from being removed until this process and its forks have ended.

    Raises:
        OSError: It can't be written.
    """
    lock = folder / _IN_USE
    for _ in range(_TRIES):
        if folder in _held and _is_at(_held[folder], lock):
            break
        with suppress(FileNotFoundError, FileExistsError):  # it was removed just now, or as it was looked at
            folder.mkdir(parents=True, exist_ok=True)
            file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
            wait_for_lock(file, shared=True)
            if folder in _held:
                os.close(_held[folder])
            _held[folder] = file
    if time.time() - lock.stat().st_mtime > _HOUR_S:
        os.utime(lock)


@contextmanager
def adding(folder: Path) -> Iterator[None]:
    """Locks `folder` for adding a kernel: numba's index of a kernel's files loses one of two that are added at once.

    Raises:
        OSError: It can't be written.
    """
    hold(folder)
    file = os.open(folder / _ADDING, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        wait_for_lock(file)
        yield
    finally:
        release(file)


def in_use(folder: Path) -> bool:
    """Returns whether a living process holds `folder`, or may, as far as can be told."""
    try:
        file = os.open(folder / _IN_USE, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return not try_lock(file)
    finally:
        release(file)


def remove_unused(parent: Path) -> None:
    """Removes the kernel folders in `parent` that nobody has used for a week and no living process holds.

    Everything else in `parent` stays, and so does what this user may not remove.
    """
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if KERNEL_FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    _remove_if_unused(Path(entry.path))


def _remove_if_unused(folder: Path) -> None:
    if folder.suffix:  # whoever renamed it was stopped before it was empty
        shutil.rmtree(folder, ignore_errors=True)
        return
    lock = folder / _IN_USE
    used = lock if lock.exists() else folder
    if time.time() - used.stat().st_mtime < UNUSED_SECONDS:
        return
    file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        if try_lock(file) and _is_at(file, lock):
            removed = folder.with_name(f"{folder.name}.removed")
            shutil.rmtree(removed, ignore_errors=True)
            folder.rename(removed)
            shutil.rmtree(removed, ignore_errors=True)
    finally:
        release(file)


def _is_at(file: int, path: Path) -> bool:
    """Returns whether the open file `file` still is the one at `path`."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
