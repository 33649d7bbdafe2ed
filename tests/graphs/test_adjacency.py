"""The CSR on disk against the CSR in RAM, and the parts that it is made of."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from a3gnn.graphs.assemble import edge_notes, in_neighbors
from a3gnn.graphs.draft import EdgeBuckets, write_adjacency
from a3gnn.graphs.edge_list_kernels import components, count_entries, guide_of, search
from a3gnn.graphs.synthetic import edge_pairs
from a3gnn.graphs.synthetic_recipe import Recipe
from a3gnn.notify import ConversionProgress
from a3gnn.seeding import generator
from a3gnn.storage.npy import NpyWriter, open_npy
from a3gnn.storage.unfinished import GrowingFile, Mark, Unfinished


@settings(max_examples=80, deadline=None)
@given(
    nodes=st.integers(1, 400),
    num_edges=st.integers(1, 600),
    skew=st.floats(1, 20),
    memory_bytes=st.integers(1, 6000),
    cuts=st.lists(st.integers(0, 600), max_size=4),
    scratch_bytes=st.none() | st.integers(1, 5000),
    seed=st.integers(0, 2**32),
)
def test_any_pieces_and_any_budget_give_the_rows_in_ram(
    nodes: int,
    num_edges: int,
    skew: float,
    memory_bytes: int,
    cuts: list[int],
    scratch_bytes: int | None,
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rng = np.random.default_rng(seed)
    edges = (nodes * rng.random((2, num_edges)) ** skew).astype(np.int32)  # hubs at low ids, and equal edges

    def pieces() -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        for start, end in pairwise(sorted({0, num_edges, *(cut for cut in cuts if cut < num_edges)})):
            yield edges[0, start:end], edges[1, start:end]

    folder, scratch, room = tmp_path_factory.mktemp("csr"), tmp_path_factory.mktemp("scratch"), scratch_bytes

    def watch(*_: object) -> None:
        taken = sum(path.stat().st_size for path in scratch.iterdir())
        assert taken <= (8 * num_edges if room is None else max(room, 16))  # two edges in any case

    progress = cast(ConversionProgress, watch)
    counts = write_adjacency(pieces, num_edges, nodes, folder, scratch, memory_bytes, progress, None, room)
    indptr, indices, notes = in_neighbors(edges, nodes)
    np.testing.assert_array_equal(np.load(folder / "indptr.npy"), indptr)
    np.testing.assert_array_equal(np.load(folder / "indices.npy"), indices)
    assert edge_notes(*counts) == notes
    assert list(scratch.iterdir()) == []


class KilledError(Exception):
    """Stands for the end of a process."""


def test_one_that_is_killed_while_a_pass_ends_early_repeats_that_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, passes, killed = np.random.default_rng(0), 0, False
    edges = (60 * rng.random((2, 5000)) ** 8).astype(np.int32)
    compacted = EdgeBuckets._compacted

    def pieces() -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        nonlocal passes
        passes += 1
        return ((edges[0, at : at + 100], edges[1, at : at + 100]) for at in range(0, 5000, 100))

    def write() -> tuple[int, int, int]:
        unfinished = Unfinished(tmp_path, "edges")
        for name in ("graph", "scratch"):
            (tmp_path / name).mkdir(exist_ok=True)
        places = tmp_path / "graph", tmp_path / "scratch", 2000, cast(ConversionProgress, lambda *_: None)
        return write_adjacency(pieces, 5000, 60, *places, unfinished, 3000)

    def killed_there(buckets: EdgeBuckets, pairs: NDArray[np.int32]) -> Mark:
        nonlocal killed
        mark = compacted(buckets, pairs)  # the file is no longer the one that was listed
        if passes > 1 and not killed:
            killed = True
            raise KilledError
        return mark

    monkeypatch.setattr("a3gnn.graphs.draft._KEPT_BYTES", 1)
    monkeypatch.setattr(EdgeBuckets, "_compacted", killed_there)
    with pytest.raises(KilledError):
        write()
    continued = write()
    with_repeated, passes = passes, 0
    indices = np.load(tmp_path / "graph" / "indices.npy")
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.unlink()
    assert write() == continued
    assert with_repeated == passes + 1
    np.testing.assert_array_equal(indices, in_neighbors(edges, 60)[1])


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.integers(1, 60),
    num_edges=st.integers(1, 300),
    budgets=st.lists(st.integers(1, 3000), min_size=2, max_size=4),
    scratch_bytes=st.none() | st.integers(8, 2000),
    seed=st.integers(0, 2**32),
    damaged=st.booleans(),
)
def test_a_killed_one_is_continued_from_any_moment(
    nodes: int,
    num_edges: int,
    budgets: list[int],
    scratch_bytes: int | None,
    seed: int,
    damaged: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rng, root = np.random.default_rng(seed), tmp_path_factory.mktemp("csr")
    edges = (nodes * rng.random((2, num_edges)) ** 3).astype(np.int32)
    folder, scratch = root / "graph", root / "scratch"

    def write(memory_bytes: int, last: int) -> tuple[int, int, int]:
        """Is killed at the step `last`, which may be reading or writing."""
        steps = iter(range(last))

        def step(*_: object) -> None:
            if next(steps, None) is None:
                raise KilledError

        unfinished = Unfinished(root, "edges")
        for path in (folder, scratch):
            path.mkdir(exist_ok=True)

        def pieces() -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
            return ((edges[0, at : at + 7], edges[1, at : at + 7]) for at in range(0, num_edges, 7))

        progress = cast(ConversionProgress, step)
        places = folder, scratch, memory_bytes, progress
        return write_adjacency(pieces, num_edges, nodes, *places, unfinished, scratch_bytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("a3gnn.graphs.draft._KEPT_BYTES", 1)
        for budget in budgets[1:]:
            with suppress(KilledError):
                write(budget, int(rng.integers(0, 5 * num_edges // 7 + 2)))
            files = [path for path in (*folder.iterdir(), *scratch.iterdir()) if path.stat().st_size]
            if damaged and files:
                victim = files[rng.integers(len(files))]
                content = bytearray(victim.read_bytes())
                content[rng.integers(len(content))] ^= 1
                victim.write_bytes(content)
        counts = write(budgets[0], 10**6)
    indptr, indices, notes = in_neighbors(edges, nodes)
    np.testing.assert_array_equal(np.load(folder / "indptr.npy"), indptr)
    np.testing.assert_array_equal(np.load(folder / "indices.npy"), indices)
    assert edge_notes(*counts) == notes
    assert list(scratch.iterdir()) == []


@pytest.mark.weekly
def test_more_than_two_to_the_31_edges(tmp_path: Path) -> None:
    """A killed process has written so many for the first range; the file has a hole in their place."""
    before, nodes = 2**31 + 6, 4
    unfinished, folder, bucket = Unfinished(tmp_path, "edges"), tmp_path / "graph", tmp_path / "scratch" / "edges-1"
    for path in (folder, bucket.parent):
        path.mkdir()
    with NpyWriter(folder / "indptr.npy", np.int64) as indptr, NpyWriter(folder / "indices.npy", np.int32) as indices:
        indptr.append(np.array([0, 5, before]))
    begin, checksum, zeros = indices.mark.begin, 0, bytes(1 << 24)
    for at in range(0, 4 * before, 1 << 24):
        checksum = zlib.crc32(memoryview(zeros)[: 4 * before - at], checksum)
    with (folder / "indices.npy").open("r+b") as file:
        file.truncate(begin + 4 * before)
    with GrowingFile(bucket) as scratch:
        scratch.append(np.array([[3, 2], [1, 2], [0, 3]], dtype=np.int32).reshape(-1).view(np.uint8).data)
    marks = {folder / "indptr.npy": indptr.mark, folder / "indices.npy": Mark(begin, 4 * before, checksum)}
    done = {
        "ranges": 2,
        "ranges_per_pass": 2,
        "given": before + 3,
        "loops": 0,
        "read": True,
        "low": 8,
        "high": 16,
        "kept": before,
    }
    unfinished.keep("edges", {**marks, bucket: scratch.mark}, done=done)
    places = folder, bucket.parent, 100, ConversionProgress()
    counts = write_adjacency(list, before + 3, nodes, *places, Unfinished(tmp_path, "edges"))
    assert counts.kept == before + 3
    assert np.load(folder / "indptr.npy").tolist() == [0, 5, before, before + 2, before + 3]
    found = open_npy(folder / "indices.npy")
    assert (len(found), found[-4:].tolist()) == (before + 3, [0, 1, 3, 0])
    entries = np.zeros(nodes, dtype=np.uint32)
    count_entries(found, entries)
    assert entries.tolist() == [before + 1, 1, 0, 1]
    assert components(np.load(folder / "indptr.npy"), found) == (1, nodes)
    (folder / "indices.npy").unlink()


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 5), max_size=6),
    columns=st.none() | st.integers(1, 4),
    dtype=st.sampled_from(["i4", "i8", "f2", "f4"]),
)
def test_pieces_make_the_file_that_numpy_saves(
    lengths: list[int], columns: int | None, dtype: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("npy")
    shape = (sum(lengths),) if columns is None else (sum(lengths), columns)
    whole = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    np.save(folder / "whole.npy", whole)
    with NpyWriter(folder / "pieces.npy", dtype, columns) as file:
        for end, length in zip(np.cumsum(lengths), lengths, strict=True):
            file.append(whole[end - length : end])
    assert (folder / "pieces.npy").read_bytes() == (folder / "whole.npy").read_bytes()
    np.testing.assert_array_equal(open_npy(folder / "pieces.npy"), whole)


@settings(max_examples=100, deadline=None)
@given(
    weights=st.lists(st.sampled_from([0.0, 1e-9, 0.3, 1.0, 50.0]), min_size=1, max_size=40).filter(any),
    cells=st.integers(1, 90),
    points=st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_a_guided_search_is_searchsorted(weights: list[float], cells: int, points: list[float]) -> None:
    mass = np.cumsum(weights)
    guide = guide_of(mass, cells)
    for point in (*(share * mass[-1] for share in points), *mass):
        expected = min(int(np.searchsorted(mass, point, side="right")), len(mass) - 1)
        assert search(mass, guide, float(point)) == expected


def test_pairs_are_drawn_as_the_recipe_says() -> None:
    """The block model as plain numpy says it, from the same random numbers."""
    recipe = Recipe(nodes=700, degree=9, classes=3, seed=4, homophily=0.7)
    labels = generator(4, "labels").integers(3, size=700)
    degrees = ((np.arange(700) + 0.5) / 700) ** (-1 / (recipe.power - 1))
    degrees = np.minimum(degrees / degrees.mean(), np.sqrt(700) / 2)
    degrees = generator(4, "degrees").permutation(degrees / degrees.mean())
    order = np.argsort(degrees, kind="stable")
    rank = np.empty(700)
    rank[order] = np.cumsum(degrees[order]) / degrees.sum()
    inside_share = 0.7 + 0.5 * (0.5 - rank)
    by_class = np.argsort(labels, kind="stable")
    mass = np.cumsum(degrees[by_class])
    bounds = np.concatenate([[0.0], mass])[np.cumsum([0, *np.bincount(labels)])]
    rng = generator(4, "edges")
    count = 700 * 9 // 2
    first = np.searchsorted(mass, rng.random(count) * mass[-1], side="right")
    start, end = bounds[labels[by_class[first]]], bounds[labels[by_class[first]] + 1]
    same = rng.random(count) < inside_share[by_class[first]]
    width = np.where(same, end - start, mass[-1] - (end - start))
    second = np.searchsorted(mass, (np.where(same, start, end) + rng.random(count) * width) % mass[-1], side="right")
    second = np.minimum(second, 699)
    proper = first != second
    ((left, right),) = edge_pairs(recipe, labels)
    np.testing.assert_array_equal(left, by_class[first[proper]])
    np.testing.assert_array_equal(right, by_class[second[proper]])


def test_progress_is_said_when_it_is_time() -> None:
    said: list[str] = []
    eager, patient = ConversionProgress(said.append, period_s=0), ConversionProgress(said.append, period_s=3600)
    eager("reading edges", 1, 4)
    patient("reading edges", 2, 4)
    assert said == ["reading edges: 25%"]
