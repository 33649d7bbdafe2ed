"""Lists the content of the cache folder: kind, size and last use of each entry, and how to remove it."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from a3gnn.storage.atomic import is_draft, try_lock
from a3gnn.storage.graph_copies import FINGERPRINT
from a3gnn.storage.kernel_folder import KERNEL_FOLDER, in_use
from a3gnn.storage.stamp import STAMP

#: graph: a converted graph. probe: measurements of a machine. download: a data set's own files. source: fingerprint of
#: a file's graph. stamp: record that a folder elsewhere was verified. curve: state from which a learning curve is
#: extended. surrogate: models fitted to measurements. kernels: compiled code. draft: files of a process that was
#: killed.
EntryKind = Literal["graph", "probe", "download", "source", "stamp", "curve", "surrogate", "kernels", "draft"]

#: Folders of kernels: a3gnn's own; the second form is numba's, for the user's functions or an older a3gnn.
_KERNELS = re.compile(rf"{KERNEL_FOLDER.pattern}|.+_[0-9a-f]{{40}}")
_DRAFT = re.compile(r"\..+\.[a-z0-9_]{8}")
_GRAPH_FILES = re.compile(
    r"(\w+\.npy|meta\.json|" + re.escape(STAMP) + r"|derived/((parts|order)-[\w-]+\.npy|seconds-[\w-]+\.txt|"
    rf"(within|aggregates|table)-[\w-]+/(\w+\.npy|meta\.json|{re.escape(STAMP)})))"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a3gnn in the cache folder.

    Attributes:
        kind: See `EntryKind`.
        name: Shown to users: a graph's name, a machine's processor, the folder of a stamp.
        path: File or folder.
        num_bytes: Bytes on the disk.
        last_used: Last known use; seconds since the epoch.
        keep: Why it must not be removed now; "" if it may be.
    """

    kind: EntryKind
    name: str
    path: Path
    num_bytes: int
    last_used: float
    keep: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        fields = ("kind", "name", "num_bytes", "last_used", "keep")
        return {name: getattr(self, name) for name in fields} | {"path": str(self.path)}

    def remove(self) -> None:
        """Removes the entry at once: another process that opens it meanwhile finds all of it or nothing.

        Memory maps of its files stay valid.

        Raises:
            OSError: It can't be removed.
        """
        if not self.path.is_dir():
            self.path.unlink()
            return
        grave = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", dir=self.path.parent))
        os.replace(self.path, grave / self.path.name)
        shutil.rmtree(grave)


def entries(root: Path) -> list[Entry]:
    """Returns all entries of a3gnn in the cache folder `root`; other files there are ignored."""
    mapped = _mapped_files()
    found = [_graph(path, mapped) for path in _children(root / "graphs", FINGERPRINT)]
    found += [_graph(path, mapped) for path in _children(root / "benchmarks") if (path / "meta.json").is_file()]
    found += [probe for path in _children(root / "hardware") for probe in _probe(path)]
    for library in ("pyg", "ogb"):
        found += [
            Entry("download", f"{library}:{path.name}", path, *_size_and_change(path))
            for path in _children(root / "downloads" / library)
        ]
    found += [_source(path) for path in _children(root / "sources", FINGERPRINT)]
    found += [_stamp(path) for path in _children(root / "verified", re.compile(r"[0-9a-f]{32}\.json"))]
    found += [
        Entry("curve", path.stem, path, *_size_and_change(path))
        for path in _children(root / "curves", re.compile(r"[0-9a-f]{32}\.pt"))
    ]
    found += [
        _surrogate(path) for path in _children(root / "surrogates", FINGERPRINT) if (path / "manifest.json").is_file()
    ]
    found += [
        Entry("kernels", path.name, path, *_size_and_change(path), "in use" if in_use(path) else "")
        for path in _children(root / "kernels", _KERNELS)
    ]
    return [*found, *_drafts(root)]


def to_remove(found: list[Entry], before: float | None, *, downloads: bool) -> list[Entry]:
    """Returns the entries of `found` to remove: those last used `before` a time (or all), and leftovers.

    Args:
        found: All entries.
        before: Seconds since the epoch; None for all. Files of killed processes are removed at any age.
        downloads: Whether downloaded data sets may be removed.
    """
    free = [entry for entry in found if not entry.keep and (downloads or entry.kind != "download")]
    gone = [entry for entry in free if entry.kind == "draft" or before is None or entry.last_used < before]
    graphs = {entry.path.name for entry in found if entry.kind == "graph"}
    graphs -= {entry.path.name for entry in gone if entry.kind == "graph"}
    # A source entry is useful only as long as its graph exists.
    return [entry for entry in gone if entry.kind != "source"] + [
        entry for entry in found if entry.kind == "source" and entry.name not in graphs
    ]


def _children(folder: Path, named: re.Pattern[str] | None = None) -> list[Path]:
    """Returns the paths in `folder` whose names match, without hidden files and links."""
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return []
    return [
        path
        for path in paths
        if not path.name.startswith(".") and not path.is_symlink() and (named is None or named.fullmatch(path.name))
    ]


def _graph(path: Path, mapped: bytes) -> Entry:
    meta = _json(path / "meta.json")
    keep = "in use" if os.fsencode(path.resolve()) + b"/" in mapped else ""
    for file in _files(path):
        if not _in_draft(file.relative_to(path)) and not _GRAPH_FILES.fullmatch(file.relative_to(path).as_posix()):
            keep = f"holds {file.relative_to(path)}, which a3gnn did not make"
    size, changed = _size_and_change(path)
    return Entry("graph", str(meta.get("name", "damaged")), path, size, changed, keep)


def _probe(path: Path) -> Iterator[Entry]:
    known = _json(path)
    if "cpu" in known:
        yield Entry("probe", str(known["cpu"]), path, *_size_and_change(path))


def _source(path: Path) -> Entry:
    fingerprint = path.read_text(encoding="utf-8", errors="replace").split("\n")[0]
    return Entry("source", fingerprint, path, *_size_and_change(path))


def _stamp(path: Path) -> Entry:
    return Entry("stamp", str(_json(path).get("folder", "")), path, *_size_and_change(path))


def _surrogate(path: Path) -> Entry:
    rows = _json(path / "manifest.json").get("num_rows", "no")
    return Entry("surrogate", f"fitted to {rows} measurements", path, *_size_and_change(path))


def remove_abandoned(path: Path) -> None:
    """Removes the drafts of killed processes that were writing or removing `path`; folders with other files stay."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.????????"):
        if _DRAFT.fullmatch(draft.name) and is_draft(draft) and _is_abandoned(draft):
            shutil.rmtree(draft, ignore_errors=True)


def _drafts(root: Path) -> Iterator[Entry]:
    """Yields the drafts in the cache folder; drafts of killed processes are free to remove."""
    graphs = ["graphs", "graphs/*", "graphs/*/derived", "graphs/*/derived/*"]
    places = [*graphs, "benchmarks", "hardware", "sources", "verified", "curves", "surrogates", "kernels"]
    for path in sorted(path for place in places for path in root.glob(f"{place}/.*")):
        if _DRAFT.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            keep = "" if _is_abandoned(path) else "being written"
            yield Entry("draft", path.name, path, *_size_and_change(path), keep)


def _is_abandoned(draft: Path) -> bool:
    """Returns whether no process holds the lock that `replacing` takes."""
    try:
        folder = os.open(draft, os.O_RDONLY)
    except OSError:
        return False
    try:
        return try_lock(folder)
    finally:
        os.close(folder)


def _in_draft(path: Path) -> bool:
    return any(_DRAFT.fullmatch(part) for part in path.parts)


def _mapped_files() -> bytes:
    """Returns Linux's lists of the memory maps of all processes that this one may inspect."""
    maps = []
    for path in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            maps.append(path.read_bytes())
    return b"".join(maps)


def _files(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if not file.is_dir()]


def _size_and_change(path: Path) -> tuple[int, float]:
    """Returns the bytes of `path` on the disk, and the time of the last change in it."""
    size, changed = 0, 0.0
    for file in [path, *(path.rglob("*") if path.is_dir() else ())]:
        with suppress(OSError):
            stat = file.lstat()
            size, changed = size + 512 * stat.st_blocks, max(changed, stat.st_mtime)
    return size, changed


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
