"""A bound on what is kept beside a graph in `derived/`: the oldest files make way for new ones."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
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
    of some bytes removes nothing.

    Raises:
        OSError: The file alone breaks the limit.
    """
    if not path.name.startswith(_KINDS):
        return
    check_limit(needed)
    held = {other: _size(other) for other in path.parent.iterdir() if other.name.startswith(_KINDS)}
    total, most = sum(held.values()), disk_limit()
    if most is None:
        most = shutil.disk_usage(path.parent).free + total
    if needed > most:
        return  # removing all would not be enough
    for other in sorted(held, key=_last_use):
        if total + needed <= most:
            return
        total -= held[other]
        _remove(other)


def _entries(path: Path) -> Iterator[os.stat_result]:
    yield path.stat()
    if path.is_dir():
        yield from (inner.stat() for inner in path.iterdir())


def _size(path: Path) -> int:
    return sum(512 * entry.st_blocks for entry in _entries(path))


def _last_use(path: Path) -> float:
    return max(entry.st_mtime for entry in _entries(path))  # opening a folder notes it in its stamp


def _remove(path: Path) -> None:
    """Removes a file or folder, whole or not at all for whoever opens it."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as hidden:
        path.rename(Path(hidden) / path.name)
