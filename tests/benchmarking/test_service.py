"""The benchmark of the service: what it asks for, and how it reads memory."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from a3gnn.config import TrainConfig
from a3gnn.service.settings import ServiceSettings
from a3gnn.service.studies.orders import StudyOrder
from a3gnn.tuning.study.arguments import make_request
from benchmarks.service.beside_a_tune import order
from benchmarks.service.readers import growth
from benchmarks.service.server import fill, serving


def test_the_tunes_have_the_default_alone_to_measure(tmp_path: Path, measurement) -> None:
    asked = StudyOrder(graph=1, **order(3)).arguments(ServiceSettings(tmp_path))
    setting = measurement(TrainConfig()).setting
    request = make_request(
        **{name: asked[name] for name in asked if name not in ("task", "metric", "trainer")}, task=setting.task
    )
    space = request.space(setting)
    assert [space.decode(row).canonical() for row in space.enumerate()] == [TrainConfig().canonical()]


@pytest.mark.weekly  # a benchmark's, which a person runs
def test_memory_is_read_while_readers_ask(tmp_path: Path) -> None:
    fill(tmp_path, 2, 3)
    with serving(tmp_path, at_once=0) as server:
        assert server.cpu_seconds > 0
        found = growth(server, 4, 1.0, lambda: f"/studies/{random.randint(1, 2)}/front", 10)
    assert found.requests > 10
    assert found.per_s == found.requests
    assert 1 << 20 < found.held_bytes < 1 << 30
    assert found.hour_bytes == pytest.approx(found.bytes_per_request * found.per_s * 3600)


def test_one_tune_is_nothing_to_compare() -> None:
    command = [sys.executable, "-m", "benchmarks.service", "--parts", "tunes", "--tunes", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert "--tunes must be >= 2, without readers and with, got 1" in ran.stderr
