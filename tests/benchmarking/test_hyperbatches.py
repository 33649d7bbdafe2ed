"""The bytes that a cold training with the policy ahead reads from the disk, as the system counts them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.hyperbatches import generated


@pytest.mark.weekly
def test_a_cold_epoch_reads_little_more_than_it_uses(tmp_path: Path) -> None:
    graph = generated(tmp_path / "graph", 200_000)
    knobs = {"feature_tier": "disk", "cache_policy": "ahead", "cache_bytes": 3 * graph.features.nbytes}
    command = [sys.executable, "-m", "benchmarks.hyperbatches", str(tmp_path / "graph"), "--one", json.dumps(knobs)]
    run = subprocess.run([*command, "--batches", "100"], capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    if not found["read_MB"]:
        pytest.skip("the folder of temporary files is not on a disk")
    # Reads pass the page cache, so each of the epoch's four sweeps reads the rows again.
    assert found["read_MB"] * 1e6 > 3 * graph.features.nbytes
    assert found["read_per_used"] <= 1.2
