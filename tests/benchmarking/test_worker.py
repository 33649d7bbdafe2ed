"""The conversation with a worker, with a3gnn's own on a tiny graph."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3gnn.graphs.graph import Graph
from benchmarks.engine.client import Engine, resident, settle
from benchmarks.engine.measure import Effort, measure
from benchmarks.engine.rows import ROWS
from benchmarks.engine.workers.folder import GraphFolder
from benchmarks.engine.workers.serve import RequestHandler
from benchmarks.engine.workers.work import Batch, Unavailable, Work


@pytest.fixture(scope="module")
def engine(small_folder_graph: Graph) -> Iterator[Engine]:
    """a3gnn's worker with `small_graph` open."""
    with Engine("a3gnn", Path(sys.executable)) as started:
        started.ask("open", folder=str(small_folder_graph.folder))
        yield started


@pytest.mark.weekly  # a benchmark's, which a person runs
def test_a_row_is_measured_in_turns(engine: Engine) -> None:
    row = next(row for row in ROWS if row.key == "train-sage")
    engines: dict[str, Engine | str] = {"a3gnn": engine, "dgl": "not installed", "pyg": "not installed"}
    said: list[str] = []
    row = replace(row, work=replace(row.work, hidden=8, fanouts=(4, 3)))
    outcomes = measure(row, 32, engines, Effort(2, 3, 2), said.append)
    ours = outcomes["a3gnn"]
    assert set(ours.screened) == {
        "sequential",
        *(f"mode{mode}, {n}" for mode in (1, 2) for n in ("1 worker", "2 workers")),
    }
    assert [len(ms) for ms in ours.ms] == [3, 3]
    assert set(ours.stages) == {"sample", "gather", "model"}
    assert all(np.isfinite(one["loss"]).all() for one in ours.rounds)
    assert outcomes["DGL"].missing == "not installed"
    assert len(said) == 4


def test_what_goes_wrong_is_a_reason(engine: Engine) -> None:
    with pytest.raises(Unavailable, match="does not know"):
        engine.ask("extra", question="the weather", argument={})
    with pytest.raises(Unavailable, match="KeyError"):
        engine.ask("measure", key="never started", count=1, skip=0)
    assert engine.alive


def test_shares_of_the_limit(engine: Engine) -> None:
    argument = {"fanouts": [4, 3], "batch_size": 32, "count": 2}
    found = engine.ask("extra", question="sampler_share", argument=argument)
    assert len(found["shares"]) == 2
    assert min(found["shares"]) > 0
    assert found["reads_per_batch"]["pointers"] >= 32


def test_memory_of_a_worker_is_seen(engine: Engine) -> None:
    assert settle(os.getpid(), patience_s=0.0) is False
    used = engine.resident()
    assert used.total >= used.anonymous > 0
    assert resident(2**22 + 1) == (0, 0)


def test_an_environment_that_is_not_there_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="not installed"):
        Engine("dgl", tmp_path / "bin" / "python")


def test_a_worker_that_ends_leaves_its_last_line() -> None:
    with pytest.raises(Unavailable, match=r"worker ended: .*No module named"):
        Engine("nothing_of_this_name", Path(sys.executable))


def test_peers_read_the_same_graph(small_folder_graph: Graph) -> None:
    read = GraphFolder.read(str(small_folder_graph.folder))
    assert np.array_equal(read.indices, small_folder_graph.indices)
    assert read.features.dtype == np.float32
    assert read.num_classes == small_folder_graph.num_classes
    cached = read.hottest(0.1)
    entries = np.bincount(read.indices, minlength=len(cached))
    assert cached.sum() == round(0.1 * len(cached))
    assert entries[cached].min() >= entries[~cached].max()


class Counting:
    """An engine whose mini-batches are numbers: ten an epoch, the last one smaller."""

    name = "counting"

    def versions(self) -> dict[str, str]:
        return {}

    def open(self, folder: str) -> dict[str, int]:
        return {"nodes": len(folder)}

    def variants(self, work: Work) -> list[str]:
        raise Unavailable(f"no way to {work.kind}")

    def batches(self, work: Work, variant: str) -> Iterator[Batch]:
        while True:
            for index in range(10):
                yield Batch(index, 5 if index == 9 else work.batch_size, float(index))

    def extra(self, question: str, argument: dict[str, Any]) -> dict[str, Any]:
        return {question: argument}


def test_warm_up_and_small_batches_are_left_out() -> None:
    handler = RequestHandler(Counting())
    work = Work("load", batch_size=8).to_dict()
    assert handler.answer({"do": "variants", "work": work}) == {"unavailable": "no way to load"}
    assert handler.answer({"do": "start", "key": "a", "work": work, "variant": ""})["ok"] >= 0
    # Batch 0 was the start's; 1 and 2 are skipped, 9 is small, and the next epoch's first two are skipped again.
    assert handler.answer({"do": "measure", "key": "a", "count": 8, "skip": 2})["ok"]["ms"] == [3, 4, 5, 6, 7, 8, 2, 3]
    assert handler.answer({"do": "epochs", "key": "a", "count": 2}) == {"ok": 17}
    assert "no more than 50" in handler.answer({"do": "measure", "key": "a", "count": 1, "skip": 50})["unavailable"]
    handler.drop()
    assert "KeyError" in handler.answer({"do": "measure", "key": "a", "count": 1, "skip": 0})["failed"]


def test_a_work_goes_through_json() -> None:
    work = Work("train", (15, 10, 5), 512, "gat", 64, "tuned")
    assert Work.from_dict(work.to_dict()) == work
