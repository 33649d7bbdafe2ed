"""Where copies of graphs live on this machine, and which source file each came from."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from pathlib import Path
from typing import NamedTuple

from a3gnn.storage.atomic import cache_root as cache_root
from a3gnn.storage.atomic import replacing


def file_state(path: Path) -> list[int]:
    """Returns the size of the file at `path` in bytes, its times of modification and of change in ns, and its inode.

    Programs that copy files may set the time of modification; only the system sets the time of change.

    Raises:
        OSError: The file can't be examined.
    """
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def content_state(path: Path) -> str:
    """Returns a hash of the content of the file at `path`, which takes milliseconds for a zip file such as an .npz.

    On a read-only image no time need tell two files apart. Of a zip file, the names, sizes and checksums of all members
    are hashed; of another file, and of one whose directory can't be read, all of it.

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
        except Exception:  # what reads a directory that may hold anything raises anything
            file.seek(0)
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


#: How a graph's folder in the cache is named.
FINGERPRINT = re.compile("[0-9a-f]{32}")


def graph_folder(root: Path, fingerprint: str) -> Path:
    """Returns the folder of the converted graph with `fingerprint`, whether it is there or not."""
    return root / "graphs" / fingerprint


def source_of(path: Path) -> str:
    """Returns the identity of the file at `path`: its absolute path, size, times, inode and a hash of its content.

    Ask for it before the file is read: what replaces the file meanwhile then has another identity.

    Raises:
        OSError: The file can't be read.
    """
    return "|".join(map(str, [path.resolve(), *file_state(path), content_state(path)]))


class Copy(NamedTuple):
    """Where the graph of a file was converted to.

    Attributes:
        folder: The converted graph.
        notes: What was said as the file was read; None where it was not kept.
    """

    folder: Path
    notes: tuple[str, ...] | None


def remember(root: Path, source: str, fingerprint: str, notes: tuple[str, ...]) -> None:
    """Notes that the file `source` holds the graph with `fingerprint`, and with which `notes` it was read."""
    with replacing(_note(root, source)) as draft:
        draft.write_text("\n".join([fingerprint, *notes, ""]), encoding="utf-8")


def recall(root: Path, source: str) -> Copy | None:
    """Returns where the graph of `source` was converted to, or None where there is no such copy."""
    try:
        fingerprint, *notes = _note(root, source).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return None
    folder = graph_folder(root, fingerprint)
    if not FINGERPRINT.fullmatch(fingerprint) or not folder.is_dir():
        return None
    return Copy(folder, tuple(notes[:-1]) if notes else None)


def _note(root: Path, source: str) -> Path:
    return root / "sources" / hashlib.blake2b(os.fsencode(source), digest_size=16).hexdigest()
