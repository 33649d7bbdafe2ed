"""The folder of compiled kernels: named by a hash of their sources, held while in use, removed by age.

Numba compiles a kernel again after an edit of its own file. It does not notice edits of other files, whose functions
and constants are compiled into the kernel. A folder per hash of all these files never contains code of another version.
Code of one branch is also still available after a look at another branch.
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

#: Name of such a folder; with the suffix, it is being removed.
KERNEL_FOLDER = re.compile(r"a3gnn-[0-9a-f]{32}(\.removed)?")
#: Seconds until an unused folder is removed. Compiling takes a minute, and a folder about 10 MB.
UNUSED_SECONDS = 7 * 86400.0
#: Lock file, held shared by all processes that use the folder; its modification time is the last use, to the hour.
_IN_USE = "in-use.lock"
#: Lock file of the process that adds a kernel.
_ADDING = "adding.lock"
_HOUR_S = 3600.0
#: Attempts to lock a folder that other processes are removing. Guess: each removes it once.
_TRIES = 20

#: Files that import `njit` from this file are compiled; the imports of this file itself are not.
_DECORATOR = "storage/compiled.py"
#: This file names the decorator, and compiles nothing.
_THIS = "storage/kernel_folder.py"
#: A file that contains this word defines compiled functions. Searched as bytes: a regex takes fifty times as long.
_COMPILED = b"njit"
#: The module, and the names imported from it.
_IMPORT = re.compile(
    rb"^[ \t]*(?:from|import)[ \t]+(a3gnn[\w.]*)(?:[ \t]+import[ \t]+(\([^)]*\)|[^\n]*))?", re.MULTILINE
)

#: The open lock file of each folder that this process holds.
_held: dict[Path, int] = {}


def kernel_sources(package: Path) -> list[str]:
    """Returns the files that decide the code of kernels, as paths relative to `package`.

    These are the files that define compiled functions, and all a3gnn files that they import, directly or indirectly.

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
    """Yields path, after `prefix`, and content of each module; an unreadable one can't be imported either."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield prefix + entry.name, _content(entry.path)
            elif entry.name.isidentifier() and entry.name != "__pycache__" and entry.is_dir():
                yield from _modules(entry.path, f"{prefix}{entry.name}/")


def _content(path: Path | str) -> bytes:
    """Returns the content of a file, or b"" if it can't be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _imported(text: bytes) -> Iterator[str]:
    """Yields the paths of a3gnn modules that `text` may import; some of them do not exist."""
    for module, names in _IMPORT.findall(text):
        path = "/".join(module.decode().split(".")[1:])
        yield f"{path}.py"
        yield f"{path}/__init__.py"
        for name in re.findall(rb"\w+", names):
            yield f"{path}/{name.decode()}.py".lstrip("/")


def folder_name(package: Path, sources: Sequence[str], versions: Sequence[str]) -> str:
    """Returns the folder name for kernels compiled from the present content of `sources`.

    Args:
        package: The folder a3gnn.
        sources: The result of `kernel_sources`.
        versions: Everything else that decides the machine code and is not in numba's own key (processor and argument
            types).
    """
    content = hashlib.blake2b(digest_size=16)
    parts = [text.encode() for text in versions]
    for path in sources:
        parts += [path.encode(), _content(package / path)]
    for part in parts:
        content.update(len(part).to_bytes(8, "little") + part)
    return f"a3gnn-{content.hexdigest()}"


def hold(folder: Path) -> None:
    """Creates `folder` if necessary, and protects it from removal until this process and its forks have ended.

    Raises:
        OSError: It can't be written.
    """
    lock = folder / _IN_USE
    for _ in range(_TRIES):
        if folder in _held and _is_at(_held[folder], lock):
            break
        with suppress(FileNotFoundError, FileExistsError):  # another process is removing it
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
    """Locks `folder` for adding a kernel: of two kernels added at once, numba's index of files would lose one.

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
    """Returns whether a running process holds `folder`; True if unknown."""
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
    """Removes the kernel folders in `parent` that were unused for a week and that no running process holds.

    Other files in `parent` stay, and so do folders that this user may not remove.
    """
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if KERNEL_FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    _remove_if_unused(Path(entry.path))


def _remove_if_unused(folder: Path) -> None:
    if folder.suffix:  # a process renamed it and ended before it had removed it
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
