from __future__ import annotations

import json
import mmap
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from a3gnn.graphs.folder import open_folder
from a3gnn.graphs.graph import Graph
from a3gnn.storage import mapping
from a3gnn.storage.mapping import in_large_pages, mapping_of, settle
from a3gnn.storage.npy import open_npy
from tests.storage.page_cache import in_memory

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux about its pages")
VALUES = np.arange(1 << 20, dtype=np.int32)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """4 MiB of ids on disk, and in the page cache."""
    np.save(tmp_path / "ids.npy", VALUES)
    return tmp_path / "ids.npy"


def _flags(array: np.ndarray) -> set[str]:
    """What the system was told about the map that `array` lies in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="ascii").splitlines():
        first = line.split()[0]
        if not first.endswith(":"):
            low, high = (int(end, 16) for end in first.split("-"))
            inside = low <= array.ctypes.data < high
        elif inside and first == "VmFlags:":
            return set(line.split()[1:])
    raise AssertionError("no map holds the array")


@pytest.fixture
def larger_than_memory(tmp_path: Path) -> Path:
    """A sparse file of 1.2 times RAM and swap: a float16 matrix of 100 rows. It takes no room on the disk."""
    amounts = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    memory = 1024 * sum(int(amounts[name].split()[0]) for name in ("MemTotal", "SwapTotal"))
    path, columns = tmp_path / "x.npy", int(1.2 * memory) // 200
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f2", "fortran_order": False, "shape": (100, columns)})
        try:
            file.truncate(file.tell() + 200 * columns)
        except OSError as error:
            pytest.skip(f"no sparse file of this size here: {error}")
    try:
        np.load(path, mmap_mode="c")
    except OSError:
        return path
    pytest.skip("this system reserves no memory for maps (vm.overcommit_memory), so none is refused")


@linux
def test_a_file_larger_than_memory_opens_writable_without_changing(larger_than_memory: Path) -> None:
    array = open_npy(larger_than_memory)
    assert torch.from_numpy(array).shape == array.shape  # warns of an array that is read-only
    array[-1, -1] = 1
    assert array[-1, -1] == 1
    assert np.load(larger_than_memory, mmap_mode="r")[-1, -1] == 0


@linux
def test_a_folder_larger_than_memory_opens(larger_than_memory: Path, tmp_path: Path) -> None:
    folder, columns = tmp_path / "graph", np.load(larger_than_memory, mmap_mode="r").shape[1]
    Graph.load("synthetic:nodes=100,features=4").save(folder)
    larger_than_memory.replace(folder / "x.npy")
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    meta["arrays"]["x"] = ["<f2", [100, columns]]
    meta["characteristics"]["num_features"] = columns
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    assert open_folder(folder).features.shape == (100, columns)


def test_a_map_is_found_behind_views(written: Path) -> None:
    array = open_npy(written)
    assert isinstance(mapping_of(array[5:].reshape(-1, 1)[::2].T), mmap.mmap)
    assert mapping_of(array.copy()) is None


@linux
def test_settled_files_leave_the_page_cache_and_keep_their_bytes(written: Path) -> None:
    (written.parent / "small").write_bytes(b"too small for a large page")
    array = open_npy(written)
    assert in_memory(array).all()
    settle(written.parent)
    if in_memory(array).any():
        pytest.skip("this file system keeps files in memory")
    np.testing.assert_array_equal(array, VALUES)


@linux
def test_large_pages_are_asked_for_where_memory_allows(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = open_npy(written)
    monkeypatch.setattr(mapping, "host_memory_bytes", lambda: array.nbytes)
    assert in_large_pages(array) is array
    assert "hg" not in _flags(array)
    monkeypatch.undo()
    in_large_pages(array)
    if not Path("/sys/kernel/mm/transparent_hugepage").exists():
        pytest.skip("this kernel has no large pages")
    assert "hg" in _flags(array)


def test_an_array_in_ram_stays_as_it_is() -> None:
    array = VALUES.copy()
    assert in_large_pages(array) is array
