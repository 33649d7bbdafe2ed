"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a path beside `path` to write a file or folder at; on success it becomes `path`, else it is removed.

    Of two processes that write the same folder, the first wins and the second's copy is dropped.

    Raises:
        OSError: It can't be written, such as when the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch:
        draft = Path(scratch) / path.name
        yield draft
        try:
            os.replace(draft, path)
        except OSError:
            if not (draft.is_dir() and path.is_dir() and any(path.iterdir())):
                raise
            shutil.rmtree(draft)
