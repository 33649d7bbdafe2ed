"""A signal to `torchrun` while its ranks evaluate."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch

from a3gnn.config import TrainConfig
from tests.training.ranks.launched import ended, run, start, wait
from tests.training.ranks.test_torchrun import learned, weights

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
SLOW_EVALUATION = Path(__file__).parent / "slow_evaluation.py"


@pytest.mark.weekly
@pytest.mark.parametrize(("slow", "number"), [("0", signal.SIGTERM), ("1", signal.SIGINT)])
def test_a_signal_during_evaluation_stops_all_ranks_with_a_checkpoint_from_which_they_go_on(
    slow, number, write_tuned, tmp_path
):
    config, whole = write_tuned(config=TrainConfig(batch_size=256)), tmp_path / "whole"
    common = ["train", "--config", config, "--model", "gin", "--epochs", "3", "--quiet"]
    run("-m", "a3gnn", *common, "--out", whole)
    expected = weights(whole)
    # While one rank is within a chunk the other waits for its rows, and is told by the loss of that one.
    out = tmp_path / f"slow{slow}"
    process = start(SLOW_EVALUATION, slow, *common, "--out", out)
    wait(process, out.with_suffix(".evaluating").exists)
    process.send_signal(number)
    code, _, err = ended(process)
    assert code != 0
    assert "interrupted: the run is saved after 1 epoch and" in err
    assert not (out / "model.pt").exists()
    progress = torch.load(out / "checkpoint.pt", weights_only=True)["progress"]
    assert len(progress["epochs"]) == 1
    assert progress["under_way"]["batches"] > 0  # those of the epoch that was evaluated
    run("-m", "a3gnn", *common, "--out", out, "--resume")
    assert learned(out) == learned(whole)
    assert all(torch.equal(own, expected[name]) for name, own in weights(out).items())
