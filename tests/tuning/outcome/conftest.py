"""Tunes that are kept as their folders were written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

KEPT = Path(__file__).parents[1] / "kept"
UNFINISHED = Path(__file__).parents[1] / "old_folder"


@pytest.fixture
def kept(tmp_path: Path) -> Callable[[str], Path]:
    """Copies the kept tune of a name, or the unfinished one, into `tmp_path`, and returns its folder."""

    def copy(name: str) -> Path:
        place = UNFINISHED if name == "unfinished" else KEPT / name
        return Path(shutil.copytree(place, tmp_path / name))

    return copy
