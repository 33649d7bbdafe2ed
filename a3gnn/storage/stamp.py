"""Remembers verified folders by the states of their files, so later opens need not read them."""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from a3gnn.errors import A3GNNError
from a3gnn.storage.atomic import replacing
from a3gnn.storage.cache import cache_root

#: The stamp's name in a verified folder.
STAMP = "verified.json"
#: Raised when the verification checks more; folders verified by an older version are verified again.
_VERSION = 2
#: Times of change advance by the kernel's tick, at most 10 ms on Linux.
_TICK_NS = 20_000_000
_HOUR_S = 3600.0

#: By file, its `file_state`; for meta.json, which contains the graph's fingerprint, a hash of its content as well.
_Files = dict[str, list[int | str]]


def verify_once(folder: Path, verify: Callable[[bool], None]) -> None:
    """Calls `verify`, unless it has already passed for the present .npy files and meta.json in `folder`.

    The stamp of a pass is in the folder, or in the cache folder if the folder can't be written. If neither can be
    written, every open verifies.

    Args:
        folder: Folder of the files.
        verify: Raises an error if the files are wrong; its argument is whether they were verified before and have
            changed.

    Raises:
        OSError: A file can't be examined.
    """
    files = _files(folder)
    stamps = {path: _read(path) for path in _places(folder)}
    for path, stamp in stamps.items():
        if stamp == files:
            note_use(path)
            return
    files = _settled(folder, files)
    verify(any(stamp is not None for stamp in stamps.values()))
    for path in _places(folder):
        with suppress(OSError), replacing(path) as draft:
            draft.write_text(
                json.dumps({"version": _VERSION, "folder": str(folder.resolve()), "files": files}), encoding="utf-8"
            )
            return


def forget(folder: Path) -> None:
    """Removes the stamps of `folder`, so the next open verifies it."""
    for path in _places(folder):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def file_state(path: Path) -> list[int]:
    """Returns the size of the file at `path` in bytes, its times of modification and of change in ns, and its inode.

    Copying programs may set the time of modification, but only the system sets the time of change.

    Raises:
        OSError: The file can't be examined.
    """
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def content_state(path: Path) -> str:
    """Returns a hash of the content of the file at `path`, which takes milliseconds for a zip file such as an .npz.

    The hash is needed because on a read-only image the times of two files may be equal. For a zip file it covers the
    names, sizes and checksums of all members. For another file, or one with an unreadable directory, it covers all
    bytes.

    Raises:
        OSError: The file can't be read.
    """
    with path.open("rb") as file:
        try:
            members = zipfile.ZipFile(file).infolist()
            listed = "\n".join(f"{one.CRC} {one.file_size} {one.compress_size} {one.filename!r}" for one in members)
            return hashlib.blake2b(listed.encode(), digest_size=16).hexdigest()
        except OSError:
            raise
        except Exception:  # reading an arbitrary directory may raise anything
            file.seek(0)
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _places(folder: Path) -> list[Path]:
    key, found = hashlib.blake2b(os.fsencode(folder.resolve()), digest_size=16).hexdigest(), [folder / STAMP]
    with suppress(A3GNNError):  # a user without a home
        found.append(cache_root() / "verified" / f"{key}.json")
    return found


def _files(folder: Path) -> _Files:
    files: _Files = {path.name: [*file_state(path)] for path in sorted(folder.glob("*.npy"))}
    return files | {path.name: [*file_state(path), content_state(path)] for path in folder.glob("meta.json")}


def _settled(folder: Path, files: _Files) -> _Files:
    """Returns `files` after waiting until a later change would have another time."""
    newest = max((int(changed) for _, _, changed, *_ in files.values()), default=0)
    if 0 <= (age := time.time_ns() - newest) < _TICK_NS:
        time.sleep((_TICK_NS - age) * 1e-9)
        return _files(folder)
    return files


def note_use(path: Path) -> None:
    """Sets the time of change of a file, such as a folder's stamp, to its last use, to the hour."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > _HOUR_S:
            os.utime(path)


def _read(path: Path) -> _Files | None:
    try:
        stamp = json.loads(path.read_text(encoding="utf-8"))
        files: _Files = stamp["files"]
        return files if stamp["version"] == _VERSION else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
