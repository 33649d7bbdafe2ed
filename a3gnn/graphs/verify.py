"""`verify`: reads every file of a converted graph again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from a3gnn._fields import Stored
from a3gnn.errors import GraphError
from a3gnn.graphs import derived
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.folder import changes, has_data, open_data, open_folder
from a3gnn.graphs.soundness import violations
from a3gnn.storage.stamp import forget, verify_once


@dataclass(frozen=True, slots=True)
class Finding(Stored):
    """The result for one file, or folder of files.

    Attributes:
        name: Its path within the graph's folder; "fingerprint" stands for all of the graph's own files.
        num_bytes: Bytes read.
        problem: The rule that it breaks; "" if it is sound.
    """

    name: str
    num_bytes: int
    problem: str


def verify(path: Path) -> list[Finding]:
    """Reads all files of the converted graph in the folder `path`, derived ones too, and returns a finding for each.

    The graph's content is compared with its fingerprint from the time of writing, even if it was verified before.
    Memory is needed for one byte per node and some MiB.

    Raises:
        GraphError: The folder is not a converted graph, or one of the graph's own files is missing or truncated.
    """
    forget(path)
    if has_data(path):
        meta, arrays = open_data(path)
        problems = changes(meta, arrays)
        return [Finding(f"{name}.npy", array.nbytes, problems.get(name, "")) for name, array in arrays.items()]
    graph = open_folder(path)
    problems = {}

    def examine(_changed: bool) -> None:
        for violation in violations(graph):
            problems.setdefault(violation.array, violation.rule)
        if (found := graph.content_fingerprint()) != graph.fingerprint:
            problems["fingerprint"] = f"must be {graph.fingerprint} as when the graph was written, got {found}"
        if problems:
            raise GraphError(f"{path} is damaged")

    with suppress(GraphError):
        verify_once(path, examine)
    return [*_of_arrays(graph, problems), *_of_derived(graph, path)]


def _of_arrays(graph: GraphArrays, problems: dict[str, str]) -> list[Finding]:
    arrays = graph.arrays()
    found = [Finding(f"{name}.npy", array.nbytes, problems.get(name, "")) for name, array in arrays.items()]
    total = sum(array.nbytes for array in arrays.values())
    return [*found, Finding("fingerprint", total, problems.get("fingerprint", ""))]


def _of_derived(graph: GraphArrays, path: Path) -> list[Finding]:
    return [
        Finding(str(file.relative_to(path)), sum(part.stat().st_size for part in _files(file)), problem)
        for file, problem in derived.examine(graph)
    ]


def _files(path: Path) -> list[Path]:
    return list(path.glob("*.npy")) if path.is_dir() else [path]
