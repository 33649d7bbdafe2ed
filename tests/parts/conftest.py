"""A small graph cut into three parts, and served from this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from a3gnn.graphs.graph import Graph
from a3gnn.parts.graph import PartedGraph
from a3gnn.parts.make import make_parts
from tests.parts.servers import opened


@pytest.fixture(scope="session")
def parts_folder(small_folder_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`small_folder_graph` in three random parts."""
    folder = tmp_path_factory.mktemp("parts") / "small"
    make_parts(small_folder_graph, folder, 3, partitioner="random")
    return folder


@pytest.fixture(scope="session")
def parted(parts_folder: Path) -> Iterator[PartedGraph]:
    """The same graph, by parts."""
    with opened(parts_folder) as graph:
        yield graph
