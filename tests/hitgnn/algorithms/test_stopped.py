"""P3 in real processes that are interrupted and killed: what is left is gone on from as if nothing had happened."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
import torch

from a3gnn.graphs.graph import Graph
from tests.training.ranks.launched import ended, kill_rank, run, says_why, start, wait
from tests.training.ranks.test_torchrun import learned, weights

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
SAVING_OFTEN = Path(__file__).with_name("saving_often.py")


def lines_of(folder: Path) -> int:
    log = folder / "metrics.jsonl"
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.mark.weekly
def test_interrupted_and_killed_ranks_go_on_bit_identically(tmp_path):
    graph, whole, broken = tmp_path / "graph", tmp_path / "whole", tmp_path / "broken"
    made = Graph.load("synthetic:nodes=20000,degree=6,classes=4,features=9").save(graph)
    assert len(made.train_ids) > 4 * 1024  # iterations within an epoch
    common = [SAVING_OFTEN, "train", "--dataset", graph, "--model", "sage", "--algorithm", "p3", "--epochs", "5"]
    run(*common, "--out", whole)
    process = start(*common, "--out", broken)
    wait(process, lambda: lines_of(broken) >= 1)
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code != 0
    assert "interrupted: the run is saved after" in err
    process = start(*common, "--out", broken, "--resume")
    kill_rank(process, 1, lambda: lines_of(broken) >= 3)
    code, _, err = ended(process)
    assert code != 0
    assert says_why(err)
    saved = torch.load(broken / "checkpoint.pt", weights_only=True)["progress"]
    assert len(saved["epochs"]) >= 2
    said = re.search(r"The run is saved after (\d+) epochs and (\d+) mini-batches", err)
    # The columns of that one are lost, unless it was killed while all others had them, as in an evaluation.
    assert said is None or tuple(map(int, said.groups())) == (len(saved["epochs"]), saved["under_way"]["batches"])
    run(*common, "--out", broken, "--resume")
    assert learned(broken) == learned(whole)
    expected = weights(whole)
    assert all(torch.equal(own, expected[name]) for name, own in weights(broken).items())
