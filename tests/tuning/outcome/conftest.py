"""Tunes that are kept as their folders were written."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.choice import NoGain
from a3gnn.tuning.study.comparison import Comparison

KEPT = Path(__file__).parents[1] / "kept"
UNFINISHED = Path(__file__).parents[1] / "old_folder"


@pytest.fixture
def without_gain(kept: Callable[[str], Path]) -> Path:
    """The folder of a kept tune whose choice is the default, for want of a measurable gain."""
    folder, default = kept("memory"), TrainConfig().canonical()
    tuned = TunedConfig.read(folder)
    no_gain = NoGain(tuned.config, Comparison.from_dict(tuned.against_default)).to_dict()
    chosen = dataclasses.replace(tuned, config=default, measured=tuned.default, against_default=None, no_gain=no_gain)
    chosen.write(folder / "tuned.json")
    return folder


@pytest.fixture
def kept(tmp_path: Path) -> Callable[[str], Path]:
    """Copies the kept tune of a name, or the unfinished one, into `tmp_path`, and returns its folder."""

    def copy(name: str) -> Path:
        place = UNFINISHED if name == "unfinished" else KEPT / name
        return Path(shutil.copytree(place, tmp_path / name))

    return copy
