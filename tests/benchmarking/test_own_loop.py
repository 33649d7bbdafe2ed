"""A user's own loop beside itself: what is compared, and the rate alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.training.tuned import TunedConfig
from benchmarks.own_loop import Compared, Curve, gains
from benchmarks.tuned_gain import rate_alone

HERO = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "hero"


def test_seconds_are_to_the_scripts_accuracy_of_the_same_seed() -> None:
    script = [Curve([1.0, 2.0, 3.0], [0.5, 0.8, 0.9]), Curve([1.0, 2.0], [0.5, 0.6])]
    tuned = [Curve([0.25, 0.5], [0.7, 0.9]), Curve([0.25], [0.5])]
    compared = Compared({"script": script, "tuned": tuned}, [0.79, 0.59])
    seconds = compared.seconds()
    assert seconds == {"script": [2.0, 2.0], "tuned": [0.5, None]}
    assert gains(seconds) == {"tuned": [4.0, 0.0]}, "a missed accuracy is no gain"


def test_the_rate_alone_is_the_baseline_at_its_own_speed() -> None:
    tuned = TunedConfig.read(HERO)
    alone = rate_alone(tuned, 2.0)
    assert alone.config == TrainConfig(learning_rate_scale=2.0)
    assert tuned.measured is not None
    assert alone.measured is not None
    assert tuned.against_default is not None
    gain = tuned.against_default["throughput"]["median"]
    assert alone.measured.throughput_epochs_per_s == pytest.approx(tuned.measured.throughput_epochs_per_s / gain)
    assert rate_alone(alone, 4.0).measured == alone.measured, "without a comparison it is the baseline already"
