"""`Disk`: every call of a tune that changes its folder, and what a loss of power leaves of it."""

from __future__ import annotations

import builtins
import io
import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from threading import Semaphore
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

#: Calls that need room on the disk.
GROWING = frozenset({"create", "mkdir", "write", "link", "store"})
#: Bytes that a disk writes whole: a loss of power may leave zeros in their place.
_SECTOR = 512
_REAL = {name: getattr(os, name) for name in ("open", "close", "mkdir", "rmdir", "unlink", "replace", "link", "fsync")}
_OPEN = io.open


class Crash(BaseException):
    """The process ends at this call. Nothing that it still does reaches the disk.

    Attributes:
        keep: Bytes of an interrupted write that were written.
    """

    def __init__(self, keep: int = 0) -> None:
        super().__init__()
        self.keep = keep


class Process:
    """A process of the simulated machine, and what its kernel knows of it.

    Args:
        faults: What happens at its changes of the disk, by their number.

    Attributes:
        faults: The same.
        changes: Changes of the disk since it began.
        late: What its next change meets, after a short write.
        is_dead: Whether it has ended by a fault; nothing that it still does reaches the disk.
        files: Its open files in the disk's folder.
        turn: Released when it may run, if others run beside it.
    """

    def __init__(self, faults: Mapping[int, str] = MappingProxyType({})) -> None:
        self.faults, self.changes, self.late, self.is_dead = faults, 0, "", False
        self.files: set[int] = set()
        self.turn = Semaphore(0)


class Disk:
    """A folder whose changes are counted one by one, and can be undone as far as they were not synced.

    A file has its synced content at least. Changes of names reach the disk in their order, as in file systems with a
    journal; a sync of any folder makes those before it last. SQLite's files, which C code writes, always last.

    Args:
        root: The folder, which exists. All else on the machine is left alone.
        step: Called before each change with its name, its path and its bytes; raises the fault. It returns how many
            bytes of a write are written.

    Attributes:
        root: The folder.
        process: The process that runs now.
    """

    def __init__(self, root: Path, step: Callable[[str, Path, int], int]) -> None:
        self.root, self.process = root, Process()
        self._step, self._text = step, f"{root}{os.sep}"
        self._grave = root.with_name(f"{root.name}-removed")
        self._grave.mkdir()
        self._numbers = itertools.count()
        self._synced: dict[int, bytes] = {}
        self._undo: list[Callable[[], None]] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Puts the disk in the place of Python's functions for files."""
        calls: dict[str, Any] = {name: getattr(self, f"_{name}") for name in _REAL}
        calls |= {"rename": self._replace, "remove": self._unlink}
        with patch.multiple(os, **calls), patch.object(io, "open", self._io), patch.object(builtins, "open", self._io):
            yield

    def end(self, process: Process) -> None:
        """Closes the files of a process that has ended, as the kernel does, and thereby releases its locks."""
        for file in process.files:
            with suppress(OSError):
                _REAL["close"](file)
        process.files.clear()

    def lose_power(self, rng: Random) -> None:
        """Undoes a random part of what is not on the disk."""
        kept = rng.randint(0, len(self._undo))
        for undo in reversed(self._undo[kept:]):
            undo()
        for path in sorted(self.root.rglob("*")):
            found = path.stat()
            if path.is_file() and not path.is_symlink() and found.st_ino in self._synced:
                synced, now = self._synced[found.st_ino], path.read_bytes()
                if synced != now:
                    path.write_bytes(_part(synced, now, rng))
        self.sync_all()

    def sync_all(self) -> None:
        """Makes everything last."""
        self._undo.clear()
        self._synced.clear()

    def sync_names(self) -> None:
        """Makes all changes of names last."""
        self._undo.clear()

    def step(self, name: str, path: Path, size: int = 0) -> int:
        """Counts a change; returns how many of its bytes are written."""
        if self.process.is_dead:
            raise Crash
        try:
            return self._step(name, path, size)
        except Crash:
            self.process.is_dead = True
            raise

    def written(self, path: Path, write: Callable[[int], int], size: int) -> int:
        """Writes bytes to the file at `path` by `write`, which takes their number; returns how many."""
        if self.process.is_dead:
            return size  # what a dying process still flushes
        try:
            return write(self.step("write", path, size))
        except Crash as crash:
            write(crash.keep)
            raise

    def _inside(self, path: Any, folder: int | None = None) -> Path | None:
        """Returns the path if it is in the root, else None."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        text = os.fsdecode(path)
        if folder is not None:
            text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
        text = os.path.abspath(text)
        return Path(text) if text.startswith(self._text) or text == str(self.root) else None

    def _appeared(self, path: Path, *, synced: bool = False) -> None:
        number = path.stat().st_ino
        if not synced:
            self._synced.setdefault(number, b"")
        self._undo.append(lambda: path.unlink())

    def _buried(self, path: Path) -> Path:
        """Returns another name of the file at `path`, by which it comes back."""
        grave = self._grave / str(next(self._numbers))
        os.rename(path, grave) if path.is_dir() else _REAL["link"](path, grave)
        return grave

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        inside = self._inside(path, dir_fd)
        if inside is None:
            return int(_REAL["open"](path, flags, mode, dir_fd=dir_fd))
        is_new = bool(flags & os.O_CREAT) and not inside.exists()
        self.step("create" if is_new else "open" if flags & (os.O_WRONLY | os.O_RDWR) else "read", inside)
        file = int(_REAL["open"](path, flags, mode, dir_fd=dir_fd))
        self.process.files.add(file)
        if is_new:
            self._appeared(inside)
        return file

    def _close(self, file: int) -> None:
        self.process.files.discard(file)
        _REAL["close"](file)

    def _io(self, file: Any, mode: str = "r", buffering: int = -1, *args: Any, **options: Any) -> Any:
        inside = None if isinstance(file, int) else self._inside(file)
        if inside is None:
            return _OPEN(file, mode, buffering, *args, **options)
        if not set(mode) & set("wax+"):
            self.step("read", inside)
            return _OPEN(file, mode, buffering, *args, **options)
        is_new = not inside.exists()
        if not is_new:
            self._synced.setdefault(inside.stat().st_ino, _content(inside))
        self.step("create" if is_new else "open", inside)
        raw = _Raw(self, inside, mode.replace("b", "").replace("t", ""))
        if is_new:
            self._appeared(inside)
        buffered = io.BufferedWriter(raw)
        if "b" in mode:
            return buffered
        names = ("encoding", "errors", "newline")
        return io.TextIOWrapper(buffered, **(dict(zip(names, args, strict=False)) | options))

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        inside = self._inside(path, dir_fd)
        if inside is not None:
            self.step("mkdir", inside)
        _REAL["mkdir"](path, mode, dir_fd=dir_fd)
        if inside is not None:
            self._undo.append(lambda: shutil.rmtree(inside))

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        inside = self._inside(path, dir_fd)
        if inside is not None:
            self.step("rmdir", inside)
        _REAL["rmdir"](path, dir_fd=dir_fd)
        if inside is not None:
            self._undo.append(lambda: inside.mkdir())

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        inside = self._inside(path, dir_fd)
        if inside is not None:
            self.step("unlink", inside)
            if inside.exists() or inside.is_symlink():
                grave = self._buried(inside)
                self._undo.append(lambda: os.rename(grave, inside))
        _REAL["unlink"](path, dir_fd=dir_fd)

    def _replace(self, before: Any, after: Any, **folders: Any) -> None:
        old, new = self._inside(before), self._inside(after)
        if old is None or new is None:
            _REAL["replace"](before, after, **folders)
            return
        self.step("rename", new)
        grave = self._buried(new) if new.is_file() else None
        _REAL["replace"](before, after, **folders)

        def undo() -> None:
            os.rename(new, old)
            if grave is not None:
                os.rename(grave, new)

        self._undo.append(undo)

    def _link(self, before: Any, after: Any, **options: Any) -> None:
        new = self._inside(after)
        if new is not None:
            self.step("link", new)
        _REAL["link"](before, after, **options)
        if new is not None:
            self._appeared(new, synced=True)

    def _fsync(self, file: Any) -> None:
        inside = self._inside(file if isinstance(file, int) else file.fileno())
        if inside is None:
            _REAL["fsync"](file)
            return
        self.step("sync", inside)
        if inside.is_dir():
            self._undo.clear()
        elif inside.exists():
            self._synced[inside.stat().st_ino] = _content(inside)


class _Raw(io.FileIO):
    """A file that is written through the disk."""

    def __init__(self, disk: Disk, path: Path, mode: str) -> None:
        super().__init__(str(path), mode)
        self._disk, self._path = disk, path

    def write(self, data: Any) -> int:
        """Writes `data`, or its beginning."""
        content = bytes(data)
        return self._disk.written(self._path, lambda size: super(_Raw, self).write(content[:size]) or 0, len(content))


def _content(path: Path) -> bytes:
    with _OPEN(path, "rb") as file:
        return bytes(file.read())


def _part(synced: bytes, now: bytes, rng: Random) -> bytes:
    """Returns what a disk may hold of a file: its synced content, and any part of what was written since."""
    if not now.startswith(synced):
        return rng.choice((synced, now, now[: rng.randint(0, len(now))]))
    kept = bytearray(now[: rng.randint(len(synced), len(now))])
    for begin in range(len(synced) // _SECTOR * _SECTOR, len(kept), _SECTOR):
        lost = slice(max(begin, len(synced)), min(begin + _SECTOR, len(kept)))
        if rng.random() < 0.2:
            kept[lost] = bytes(lost.stop - lost.start)
    return bytes(kept)
