"""Studies to show: `real_tune` holds what a tune of the graph nell wrote, five minutes on two cores."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.conftest import formulas, quick_tune  # noqa: F401

REAL = Path(__file__).parent / "real_tune"
#: The browser that Debian's package installs.
CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """The folder of a finished tune: the default and 19 further trials, a verification, a choice."""
    return Path(shutil.copytree(REAL, tmp_path / "finished"))


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """The folder of the same tune after twelve trials, while the line of the next is being written."""
    folder = tmp_path / "running"
    folder.mkdir()
    for name in ("request.json", "product_speeds.json"):
        shutil.copy(REAL / name, folder)
    lines = (REAL / "probes.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "probes.jsonl").write_text("".join(lines[:12]) + lines[12][:700], encoding="utf-8")
    (folder / "state.json").write_text(json.dumps({"elapsed_s": 100.0, "finished_budget": None}), encoding="utf-8")
    return folder


@pytest.fixture
def failed(finished: Path) -> Path:
    """The folder of the finished tune, in which one trial that was not in the verification ran out of memory."""
    path = finished / "probes.jsonl"
    trials = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    measurement = trials[4]["measurement"]
    del measurement["metrics"]
    measurement["failure"] = {
        "kind": "out_of_memory",
        "detail": "a traceback\n</script><b>passed the limit",
        "limit": 9.0,
    }
    path.write_text("".join(json.dumps(trial) + "\n" for trial in trials), encoding="utf-8")
    return finished


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, as a3gnn's page is tested in it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is not there (Debian's package chromium)")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()
