"""A process ends, and an epoch that nobody goes on with frees all that it holds."""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from a3gnn.config import PARALLEL_MODES, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader
from a3gnn.pipeline import isolation as profile
from tests.threads.begun import begun_from_here

SCRIPT = Path(__file__).parent / "suspended.py"


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    begun = begun_from_here()
    yield
    assert not begun()


def test_a_process_ends_with_epochs_under_way(small_folder_graph: Graph, tmp_path: Path) -> None:
    # An uncaught error exits with 1, Ctrl-C by its signal; what is left behind says nothing of its own.
    expected = {"end": (0, None), "error": (1, "LookupError"), "ctrl-c": (-signal.SIGINT, "KeyboardInterrupt")}
    command = [sys.executable, SCRIPT, small_folder_graph.folder, tmp_path, *expected]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as run:
        try:
            statuses = json.loads(run.communicate(timeout=120)[0])
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
    said = {how: (tmp_path / how).read_text().splitlines() for how in expected}
    last = {how: lines[-1].split(":")[0] if lines else None for how, lines in said.items()}
    assert {how: (statuses[how], last[how]) for how in expected} == expected, said
    assert all(sum(line.startswith("Traceback") for line in lines) == bool(lines) for lines in said.values()), said


@pytest.mark.parametrize("overlapped", [True, False])
@pytest.mark.parametrize("mode", PARALLEL_MODES)
def test_an_epoch_that_is_forgotten_ends_its_threads(mode: str, overlapped: bool, small_graph: Graph) -> None:
    loader = Loader(small_graph, (5, 4), config=TrainConfig(batch_size=16, parallel_mode=mode, num_workers=3))
    loader._pipeline._overlap.overlapped = overlapped
    begun = begun_from_here()
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    assert bool(begun()) == (mode != "sequential")
    del batches
    gc.collect()
    assert not begun()


def test_a_thread_that_cannot_start_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    submit, submitted, errors = profile.ThreadPoolExecutor.submit, [], []

    def submit_once(self, *args):
        submitted.append(args)
        if len(submitted) > 1:
            raise RuntimeError("can't start new thread")
        return submit(self, *args)

    def measure() -> None:
        try:
            profile._sampling_seconds(None, 0, [None], 2)
        except RuntimeError as error:
            errors.append(str(error))

    monkeypatch.setattr(profile.ThreadPoolExecutor, "submit", submit_once)
    # Where it waits for ever, the test fails instead of doing likewise.
    measuring = threading.Thread(target=measure, daemon=True)
    measuring.start()
    measuring.join(20)
    assert errors == ["can't start new thread"]
