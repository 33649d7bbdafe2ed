"""The cluster of the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.profiling.cluster.nodes import ROOT, Node, Rays


@pytest.fixture(scope="session")
def rays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rays]:
    """Three nodes: first, labeled single, and left and right, labeled pair."""
    folder = tmp_path_factory.mktemp("nodes")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.profiling.cluster.ray_nodes", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    with process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield Rays(told["address"], {name: Node(**node) for name, node in told["nodes"].items()})
        process.communicate(timeout=60)
