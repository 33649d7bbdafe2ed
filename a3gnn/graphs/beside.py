"""Files beside a graph that are made from it: written whole or not at all, and opened as memory maps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.storage.atomic import need_room, replacing
from a3gnn.storage.npy import open_npy
from a3gnn.units import format_size

#: What to do about a damaged one.
REMEDY = "delete it, and it is made anew"


def opened(path: Path, dtype: np.dtype[Any], *shape: int) -> NDArray[Any]:
    """Returns the array at `path` as a memory map, which must be of `dtype` and `shape`.

    Raises:
        GraphError: It is missing, truncated, or another array.
    """
    try:
        array = open_npy(path)
    except (OSError, ValueError, EOFError) as error:
        raise GraphError(f"{path} is missing or truncated ({error}); {REMEDY}") from error
    if array.dtype != dtype or array.shape != shape:
        raise GraphError(
            f"{path} must hold {' x '.join(map(str, shape))} values of {dtype}, got {array.dtype} of shape "
            f"{array.shape}; {REMEDY}"
        )
    return array


@contextmanager
def keeping(graph: GraphArrays, path: Path, needed: int) -> Iterator[Path]:
    """Yields where to write the `needed` bytes that become `path`.

    Raises:
        GraphError: It can't be written; the message says what to do about it.
    """
    try:
        with replacing(path, durable=False) as draft:  # set-up does not wait for the disk
            need_room(draft.parent, needed)
            yield draft
    except OSError as error:
        raise GraphError(
            f"what is derived from a graph is kept beside it, but {path} can't be written ({error}); it takes "
            f"{format_size(needed)}: free some space, or copy the graph: a3gnn graph convert {graph.folder} FOLDER"
        ) from error
