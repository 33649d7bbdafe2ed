"""`check_npz`: what an .npz file would unpack to, from its arrays' headers, before anything of it is unpacked."""

from __future__ import annotations

import math
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from a3gnn.errors import GraphError
from a3gnn.units import format_size

#: Members that a graph's file may have: its arrays, and some that are not read.
_MOST_MEMBERS = 64


def check_npz(path: Path, max_bytes: int | None, max_nodes: int, max_edges: int) -> None:
    """Checks the file at `path`.

    Raises:
        GraphError: It is no .npz file, it has an array twice, an array in it holds objects, which only unpickling would
            make, or it would have more bytes, nodes or edges than it may.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise GraphError(f"an .npz file of a graph may have {_MOST_MEMBERS} arrays, got {len(members)}")
            names = [member.filename.removesuffix(".npy") for member in members]
            for name, count in Counter(names).items():
                if count > 1:
                    raise GraphError(f"an .npz file must have each array once, got {name} {count} times")
            shapes = dict(zip(names, (_header(archive, member) for member in members), strict=True))
    except (OSError, zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        raise GraphError(
            f"the file is no readable .npz: {error}; numpy.savez(FILE, edge_index=..., x=..., y=..., ...) writes one"
        ) from error
    total = sum(count * dtype.itemsize for _, dtype, count in shapes.values())
    if max_bytes is not None:
        check_bound("bytes", total, max_bytes, f", {format_size(total)}")
    edges, nodes = (shapes.get(name, ((0,), np.dtype("u1"), 0))[0] for name in ("edge_index", "y"))
    check_bound("edges", edges[-1] if edges else 0, max_edges)
    check_bound("nodes", nodes[0] if nodes else 0, max_nodes)


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype[np.generic], int]:
    """Returns the shape, the type and the number of elements of an array, which the member is as large as."""
    with archive.open(member) as file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file)
        begin = file.tell()
    if dtype.hasobject:
        raise GraphError(f"{member.filename} holds Python objects, which the server does not unpickle; store numbers")
    count = math.prod(shape)
    if member.file_size - begin != count * dtype.itemsize:
        raise GraphError(
            f"{member.filename} must have {count * dtype.itemsize:,} bytes, got {member.file_size - begin:,}"
        )
    return shape, dtype, count


def check_bound(what: str, found: int, most: int, shown: str = "") -> None:
    """Checks that a graph has at most so many bytes, nodes or edges.

    Raises:
        GraphError: It has more.
    """
    if found > most:
        name = "--max-upload" if what == "bytes" else f"--max-{what}"
        raise GraphError(f"a graph may have {most:,} {what} here, got {found:,}{shown}; a3gnn serve {name} sets that")
