"""What of a study's folder can be taken away: all that `front`, `report`, `pick`, `compare` and `export` read there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

from a3gnn.service.home import JobFolder
from a3gnn.service.problems import ProblemDetails

#: The files, in the order in which they are read: where the state says that the tune has finished, the last two are
#: there.
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
#: Bytes that are sent together, at least. Guess.
_PIECE = 1 << 16


def pieces(folder: JobFolder, name: FileName, graph: str) -> Iterator[bytes]:
    """Returns the content of a file, some of it at a time; no path of the server is in it.

    Args:
        folder: The study's.
        name: The file's. Of the journal only whole lines are sent.
        graph: What the one who named the study's graph called it, which takes the place of what loads it here.

    Raises:
        Problem: The study has no such file yet.
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
    """Returns the files that there are, with their bytes on the server."""
    paths = {name: folder.run / name for name in FILES}
    return {name: path.stat().st_size for name, path in paths.items() if path.is_file()}


def with_places(folder: JobFolder, content: bytes, graph: str | None = None) -> bytes:
    """Returns a JSON object as it is kept, but for its paths and the place of its graph, which `graph` takes."""
    if graph is None and b"/" not in content:
        return content
    found = json.loads(content)
    shown = folder.places.shown_in(found)
    if graph is not None and isinstance(shown, dict):
        _name_graph(shown, graph)
    return content if shown == found else json.dumps(shown, indent=1).encode()


def _name_graph(fields: dict[str, Any], graph: str) -> None:
    """Sets what loads the graph, in a request or a tuned.json."""
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
