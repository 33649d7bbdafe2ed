"""A bound on what is kept beside a graph in `derived/`: the oldest files make way for new ones."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from a3gnn.units import format_size, parse_size

#: Bytes that one graph's derived files, and the scratch of one evaluation or prediction, may take each.
VARIABLE = "A3GNN_DISK_LIMIT"
#: Beginnings of the names of what may be removed: all that a graph's next use can make again.
_KINDS = ("order-", "parts-", "table-", "within-")


def disk_limit() -> int | None:
    """Returns the bytes of $A3GNN_DISK_LIMIT, which child processes inherit; None without it.

    Raises:
        UsageError: It is not a size.
    """
    text = os.environ.get(VARIABLE)
    return parse_size(text) if text else None


def check_limit(needed: int) -> None:
    """Checks that files of `needed` bytes keep the limit.

    Raises:
        OSError: They don't.
    """
    most = disk_limit()
    if most is not None and needed > most:
        raise OSError(errno.EDQUOT, f"{format_size(needed)} are needed, {VARIABLE} allows {format_size(most)}")


def make_room(path: Path, needed: int) -> None:
    """Removes files beside `path` until it keeps the bound with `needed` bytes; those unused for longest go first.

    The bound is the limit, or, without one, the disk's room. A process that has mapped a removed file keeps it. A note
    of some bytes removes nothing. Other processes may remove files at the same time.

    Raises:
        OSError: The file alone breaks the limit.
    """
    if not path.name.startswith(_KINDS):
        return
    check_limit(needed)
    held = {one: _size_and_use(one) for one in path.parent.iterdir() if one.name.startswith(_KINDS)}
    total, most = sum(size for size, _ in held.values()), disk_limit()
    if most is None:
        most = shutil.disk_usage(path.parent).free + total
    if needed > most:
        return  # removing all would not be enough
    for one in sorted(held, key=lambda one: held[one][1]):
        if total + needed <= most:
            return
        total -= held[one][0]
        with suppress(FileNotFoundError):
            _remove(one)


def _size_and_use(path: Path) -> tuple[int, float]:
    """Returns a file's or folder's bytes and when it was last opened (`note_use`); zeros if it is gone."""
    with suppress(FileNotFoundError):
        entries = [path.stat(), *(inner.stat() for inner in (path.iterdir() if path.is_dir() else ()))]
        return sum(512 * entry.st_blocks for entry in entries), max(entry.st_mtime for entry in entries)
    return 0, 0.0


def _remove(path: Path) -> None:
    """Removes a file or folder, whole or not at all for whoever opens it."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as hidden:
        path.rename(Path(hidden) / path.name)
