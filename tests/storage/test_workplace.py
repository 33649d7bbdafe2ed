"""Temporary folders: they go with their process, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from a3gnn.storage.workplace import Workplace, sweep

OPEN = """
import pathlib, sys
from a3gnn.storage.workplace import Workplace
place = Workplace()
(place.folder / "trial").mkdir()
(place.folder / "trial" / "rows.npy").write_bytes(b"1" * 1000)
print(place.folder, flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory of each test, and of the processes that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def start() -> tuple[subprocess.Popen[str], Path]:
    """A process with a workplace that is in use."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_process_left_behind_is_removed_by_the_next() -> None:
    killed, left = start()
    living, kept = start()
    killed.kill()
    killed.communicate()
    assert (left / "trial" / "rows.npy").exists()
    place = Workplace()
    assert not left.exists()
    assert (kept / "trial" / "rows.npy").exists()
    place.close()
    place.close()
    assert not place.folder.exists()
    living.communicate("\n")
    assert not kept.exists(), "a program that ends without closing its workplace removes it"


def test_a_workplace_in_the_making_is_left_alone_for_an_hour(temporary: Path) -> None:
    making = temporary / "a3gnn-work-new"
    making.mkdir()
    sweep(temporary)
    assert making.exists()
    hours_ago = time.time() - 2 * 3600
    os.utime(making, (hours_ago, hours_ago))
    sweep(temporary)
    assert not making.exists()


def test_only_folders_of_ours_are_touched(temporary: Path) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (temporary / "a3gnn-work-link").symlink_to(elsewhere)
    (temporary / "a3gnn-work-file").write_text("notes")
    (temporary / "other-work").mkdir()
    sweep(temporary)
    assert {path.name for path in temporary.iterdir()} == {
        "elsewhere",
        "a3gnn-work-link",
        "a3gnn-work-file",
        "other-work",
    }
    assert (elsewhere / "lock").exists()
