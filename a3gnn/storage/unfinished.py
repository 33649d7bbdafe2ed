"""What a killed process leaves for the next one: files that grow in pieces, and a list of their finished parts."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from a3gnn.version import __version__

_PIECE_BYTES = 1 << 22
_LIST = "finished.json"
#: Of the states that stages have in it; others are not continued.
_FORMAT = 2


class Mark(NamedTuple):
    """The finished part of a file.

    Attributes:
        begin: Its first byte; a header before it may change.
        size: Its bytes.
        checksum: Their CRC-32. A file that the system had not written to the disk yet, or that changed, has another.
    """

    begin: int = 0
    size: int = 0
    checksum: int = 0


class GrowingFile:
    """A file that is written in order, and the checksum of its bytes; a context manager.

    Args:
        path: The file.
        mark: Its finished part, which stays; bytes after it are dropped. None begins anew.

    Raises:
        OSError: It can't be opened.
    """

    def __init__(self, path: Path, mark: Mark | None = None) -> None:
        self.mark = mark = mark or Mark()
        self._file = path.open("r+b" if mark.size else "wb", buffering=0)
        self._file.truncate(mark.begin + mark.size)
        self._file.seek(0, os.SEEK_END)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def append(self, data: memoryview) -> None:
        """Writes bytes at the end.

        Raises:
            OSError: They can't be written.
        """
        self._write(data)
        begin, size, checksum = self.mark
        self.mark = Mark(begin, size + len(data), zlib.crc32(data, checksum))

    def write_header(self, header: bytes) -> None:
        """Writes the bytes before the marked part."""
        self._file.seek(0)
        self._write(memoryview(header))
        self._file.seek(0, os.SEEK_END)

    def _write(self, data: memoryview) -> None:
        while data:  # write of a raw file may take only a part
            data = data[self._file.write(data) or 0 :]


class Unfinished:
    """The stages of some work that an earlier process has finished in a folder.

    Nothing is believed: a stage counts if it is of the same source and version of a3gnn, and all its files still have
    their checksums.

    Args:
        folder: Takes the list of the stages; the files are in it, too. Files that are not listed are deleted.
        source: Identity of the input; None never continues anything.
    """

    def __init__(self, folder: Path, source: str | None) -> None:
        self._folder = folder
        self._of = f"{__version__}|{_FORMAT}|{source}"
        self._stages: dict[str, dict[str, Any]] = {}
        with suppress(OSError, ValueError, KeyError, TypeError):
            content = json.loads((folder / _LIST).read_text(encoding="utf-8"))
            if source is not None and content["of"] == self._of:
                self._stages = content["stages"]
        listed = {folder / path for state in self._stages.values() for path in state["files"]}
        for path in sorted(folder.rglob("*"), reverse=True):  # a folder comes after what is in it
            if path.is_dir() and not path.is_symlink():
                with suppress(OSError):  # it is not empty
                    path.rmdir()
            elif path not in listed and path != folder / _LIST:
                path.unlink()

    @property
    def begun(self) -> bool:
        """Whether a stage is listed."""
        return bool(self._stages)

    def stage(self, name: str) -> dict[str, Any] | None:
        """Returns the state of the stage `name` from `keep`, with its `Mark`s by file name as `files`; else None."""
        state = self._stages.get(name)
        if state is None:
            return None
        marks = {path: Mark(*mark) for path, mark in state["files"].items()}
        if not all(_is_proven(self._folder / path, mark) for path, mark in marks.items()):
            del self._stages[name]
            return None
        return {**state, "files": {Path(path).name: mark for path, mark in marks.items()}}

    def keep(self, name: str, files: Mapping[Path, Mark], **state: Any) -> None:
        """Lists a stage, in place of what it had finished before.

        Args:
            name: The stage.
            files: The files that it needs to continue; names are distinct.
            state: JSON types.

        Raises:
            OSError: The list can't be written.
        """
        marks = {str(path.relative_to(self._folder)): mark for path, mark in files.items()}
        self._stages[name] = {**state, "files": marks}
        draft = self._folder / f".{_LIST}"  # not durable: after a power failure, checksums decide
        draft.write_text(json.dumps({"of": self._of, "stages": self._stages}), encoding="utf-8")
        os.replace(draft, self._folder / _LIST)


def _is_proven(path: Path, mark: Mark) -> bool:
    """Returns whether the file at `path` has the part of `mark`."""
    checksum, left = 0, mark.size
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(mark.begin)
            while left and (piece := file.read(min(left, _PIECE_BYTES))):
                checksum = zlib.crc32(piece, checksum)
                left -= len(piece)
    except OSError:
        return False
    return not left and checksum == mark.checksum
