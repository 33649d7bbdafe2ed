"""The cached copies of graphs on this machine, and the source file of each."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from pathlib import Path
from typing import NamedTuple

from a3gnn.storage.atomic import cache_root as cache_root
from a3gnn.storage.atomic import replacing

#: Name of a graph's folder in the cache.
FINGERPRINT = re.compile("[0-9a-f]{32}")


class Copy(NamedTuple):
    """The converted copy of a file's graph.

    Attributes:
        folder: The converted graph.
        notes: The notes from reading the file; None if they were not stored.
    """

    folder: Path
    notes: tuple[str, ...] | None


def graph_folder(root: Path, fingerprint: str) -> Path:
    """Returns the folder of the converted graph with `fingerprint`, which may not exist."""
    return root / "graphs" / fingerprint


def source_of(path: Path) -> str:
    """Returns the identity of the file at `path`: its absolute path, size, times, inode and a hash of its content.

    Call it before reading the file: a file that replaces it during the reading then has another identity.

    Raises:
        OSError: The file can't be read.
    """
    return "|".join(map(str, [path.resolve(), *file_state(path), content_state(path)]))


def remember(root: Path, source: str, fingerprint: str, notes: tuple[str, ...]) -> None:
    """Records that the file `source` contains the graph with `fingerprint`, and the `notes` from reading it."""
    with replacing(_note(root, source)) as draft:
        draft.write_text("\n".join([fingerprint, *notes, ""]), encoding="utf-8")


def recall(root: Path, source: str) -> Copy | None:
    """Returns the converted copy of the graph of `source`, or None if there is no such copy."""
    try:
        fingerprint, *notes = _note(root, source).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return None
    folder = graph_folder(root, fingerprint)
    if not FINGERPRINT.fullmatch(fingerprint) or not folder.is_dir():
        return None
    return Copy(folder, tuple(notes[:-1]) if notes else None)


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


def _note(root: Path, source: str) -> Path:
    return root / "sources" / hashlib.blake2b(os.fsencode(source), digest_size=16).hexdigest()
