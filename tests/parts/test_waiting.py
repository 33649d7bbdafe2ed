"""Training that waits for a lost server: Ctrl-C ends it with a checkpoint, from which it goes on bit-equally."""

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.parts.opening import PartsSpec, open_parts
from a3gnn.parts.part import open_part
from a3gnn.parts.serve import serving
from a3gnn.task import Task
from tests.parts.servers import HOST
from tests.parts.training import check_same_run


@pytest.mark.parametrize("mode", ["sequential", "mode1"])
def test_ctrl_c_ends_the_waiting_with_a_checkpoint(
    small_folder_graph: Graph, parts_folder: Path, tmp_path: Path, mode: str
) -> None:
    config = TrainConfig(batch_size=256, parallel_mode=mode)  # type: ignore[arg-type]
    asked = {"task": Task(hidden_channels=16, fanouts=(5, 5)), "epochs": 2, "patience": None}
    parts = [open_part(parts_folder / f"part-{number}") for number in range(3)]
    with ExitStack() as kept, ExitStack() as lost:
        addresses = [kept.enter_context(serving(part, HOST, 0, None))[1] for part in parts[:2]]
        addresses.append(lost.enter_context(serving(parts[2], HOST, 0, None))[1])
        graph = open_parts(PartsSpec(tuple(addresses), 3600.0))
        interrupted_at = []

        def notify(line: str) -> None:
            if line.startswith("epoch   1"):
                lost.close()
            if "does not answer" in line:
                interrupted_at.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(KeyboardInterrupt, match="saved after 1 epoch"):
            train(config, graph, out=tmp_path / "there", notify=notify, **asked)  # type: ignore[arg-type]
        assert time.monotonic() - interrupted_at[0] < 600  # far from its patience
        port = int(addresses[2].rpartition(":")[2])
        kept.enter_context(serving(parts[2], HOST, port, None))
        train(config, graph, out=tmp_path / "there", resume=True, notify=lambda line: None, **asked)  # type: ignore[arg-type]
        graph.client.close()
    train(config, small_folder_graph, out=tmp_path / "here", notify=lambda line: None, **asked)  # type: ignore[arg-type]
    check_same_run(tmp_path / "there", tmp_path / "here")
