"""Downloads of a study's files: all that `front`, `report`, `pick`, `compare` and `export` read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

from a3gnn.service.home import JobFolder
from a3gnn.service.problems import ProblemDetails

#: The files, in reading order. The state comes first: if it says that the tune has finished, the last two files exist.
FileName = Literal[
    "state.json",
    "request.json",
    "probes.jsonl",
    "timings.jsonl",
    "product_speeds.json",
    "predicted_front.json",
    "front.json",
    "tuned.json",
]
FILES: tuple[FileName, ...] = get_args(FileName)
#: Least bytes sent together. Guess.
_PIECE = 1 << 16


def pieces(folder: JobFolder, name: FileName, graph: str) -> Iterator[bytes]:
    """Returns the content of a file in pieces, with the server's paths shortened.

    Args:
        folder: The study's folder.
        name: The file's name. Of a .jsonl file, only whole lines are sent.
        graph: The name of the study's graph, as the user gave it. It replaces the dataset that loads it here.

    Raises:
        ProblemDetails: The study has no such file yet.
    """
    try:
        file = (folder.run / name).open("rb")
    except FileNotFoundError:
        raise ProblemDetails(
            404, "not-found", f"the study has no {name} so far; GET .../files lists those that it has"
        ) from None
    if Path(name).suffix == ".jsonl":
        return _lines(folder, file)
    with file:
        return iter((with_places(folder, file.read(), graph),))


def sizes(folder: JobFolder) -> dict[str, int]:
    """Returns the existing files with their sizes in bytes."""
    paths = {name: folder.run / name for name in FILES}
    return {name: path.stat().st_size for name, path in paths.items() if path.is_file()}


def with_places(folder: JobFolder, content: bytes, graph: str | None = None) -> bytes:
    """Returns a JSON object with the server's paths shortened, and `graph`, if given, as its graph's dataset."""
    if graph is None and b"/" not in content:
        return content
    found = json.loads(content)
    shown = folder.places.shown_in(found)
    if graph is not None and isinstance(shown, dict):
        _name_graph(shown, graph)
    return content if shown == found else json.dumps(shown, indent=1).encode()


def _name_graph(fields: dict[str, Any], graph: str) -> None:
    """Sets the graph's dataset in a request or a tuned.json."""
    for place in (fields, fields.get("graph")):
        if isinstance(place, dict) and "spec" in place:
            place["spec"] = graph


def _lines(folder: JobFolder, file: BinaryIO) -> Iterator[bytes]:
    with file:
        piece = b""
        while (line := file.readline()).endswith(b"\n"):
            piece += line if b"/" not in line else _shown_line(folder, line)
            if len(piece) >= _PIECE:
                yield piece
                piece = b""
        yield piece


def _shown_line(folder: JobFolder, line: bytes) -> bytes:
    return json.dumps(folder.places.shown_in(json.loads(line))).encode() + b"\n"
