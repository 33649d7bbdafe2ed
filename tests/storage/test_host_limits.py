"""What control groups of both versions leave to programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from a3gnn.storage import host_limits as control_groups
from a3gnn.storage.host_limits import available_bytes, host_memory_bytes

MIB = 2**20
FILES = {
    2: ("memory.max", "memory.current", "memory.stat", "file", "shmem"),
    1: (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_cache",
        "total_shmem",
    ),
}


@pytest.fixture(params=FILES, ids=lambda version: f"version {version}")
def group(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, ...]:
    """A group that may take 64 MiB, has taken 50, and could drop 20 of them: 21 of page cache, 1 of it shared."""
    monkeypatch.setattr(control_groups, "_GROUPS", str(tmp_path / "own"))
    monkeypatch.setattr(control_groups, "_MOUNTS", str(tmp_path / "mounts"))
    monkeypatch.setattr(control_groups, "_USUAL", str(tmp_path))
    limit, taken, stat, cache, shared = FILES[request.param]
    limit_path, taken_path, stat_path = tmp_path / limit, tmp_path / taken, tmp_path / stat
    limit_path.parent.mkdir(exist_ok=True)
    limit_path.write_text(f"{64 * MIB}\n")
    taken_path.write_text(f"{50 * MIB}\n")
    stat_path.write_text(f"cache 7\nanon 9\n{cache} {21 * MIB}\n{shared} {MIB}\n")
    return limit_path, taken_path, stat_path


def test_the_page_cache_of_a_group_can_be_taken(group):
    assert available_bytes() == (64 - 50 + 20) * MIB
    assert host_memory_bytes() == 64 * MIB


def test_a_group_without_a_limit_leaves_what_the_machine_has(group):
    group[0].write_text("max\n" if group[0].name == "memory.max" else "9223372036854771712\n")
    found = available_bytes()
    assert found is not None
    assert found > 64 * MIB
    assert host_memory_bytes() > 64 * MIB


def test_the_kernels_caches_of_names_can_be_taken(group):
    with open(group[2], "a") as file:
        file.write(f"slab_reclaimable {3 * MIB}\n")
    counted = 3 if group[0].name == "memory.max" else 0  # version 1 counts them in a file of their own
    assert available_bytes() == (64 - 50 + 20 + counted) * MIB
