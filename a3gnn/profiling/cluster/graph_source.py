"""`GraphSource`: the files of a converted graph, read piece by piece for other machines."""

from __future__ import annotations

from pathlib import Path

#: Bytes of a piece: so many lie in Ray's object stores at a time. Guess.
PIECE_BYTES = 16 << 20


class GraphSource:
    """An actor on the machine that a study runs on, from which machines get a graph that they don't have."""

    def read(self, folder: str, name: str, offset: int) -> bytes:
        """Returns the piece of the file `name` in the converted graph's folder that begins at byte `offset`."""
        with (Path(folder) / name).open("rb") as file:
            file.seek(offset)
            return file.read(PIECE_BYTES)


def graph_files(folder: Path) -> dict[str, int]:
    """Returns the graph's own files in `folder`, by name with their bytes; what was derived from it is left out."""
    return {path.name: path.stat().st_size for path in [*sorted(folder.glob("*.npy")), folder / "meta.json"]}
