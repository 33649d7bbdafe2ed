"""`StoredCurves`: what is known of learning curves in one setting, by learning key."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from a3gnn.config import LearningKey, TrainConfig
from a3gnn.learning_curve import NO_CURVE, LearningCurve
from a3gnn.measurement import MEASUREMENT_VERSION, Measurement, Metrics, keep_longest
from a3gnn.profiling.trial.curve_end import CurveRules
from a3gnn.profiling.trial.request import CurvePlan
from a3gnn.setting import Setting
from a3gnn.storage.cache import cache_root

#: What all states together may take. Guess: some hundred of common models, which have up to a few megabytes each.
MOST_BYTES = 1 << 30


def curve_state(root: Path, *training: object) -> Path:
    """Returns where the state of a learning curve lies in the cache folder `root`, whether it is there or not.

    Args:
        root: The cache folder.
        training: What decides the curve bit for bit, as JSON types.
    """
    name = hashlib.blake2b(json.dumps(training).encode(), digest_size=16).hexdigest()
    return root / "curves" / f"{name}.pt"


def drop_oldest(root: Path, most_bytes: int = MOST_BYTES) -> None:
    """Removes the states that were written longest ago until the others take `most_bytes` or less.

    A curve without its state is trained again from its start where it is to be extended.
    """
    found = []
    for path in (root / "curves").glob("*.pt"):
        with suppress(OSError):  # another process removed it
            stat = path.stat()
            found.append((stat.st_mtime, stat.st_size, path))
    taken = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if taken <= most_bytes:
            return
        path.unlink(missing_ok=True)
        taken -= size


class StoredCurves:
    """The longest curve of each `Setting.curve_key`: configurations of one key learn the same.

    Where measured times choose, that is to rounding (`TrainConfig.learning_key`).

    Args:
        setting: What is trained, on which graph and machine.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._longest: dict[LearningKey, LearningCurve] = {}
        self._first: dict[LearningKey, int] = {}

    def learn(self, measurement: Measurement) -> None:
        """Takes note of the curve of `measurement`, if it has one that goes further, and of where its points lie."""
        if measurement.setting.key() != self._setting.key():
            return
        keep_longest(self._longest, measurement)
        if measurement.metrics is not None and measurement.metrics.curve_first is not None:
            self._first[self._setting.curve_key(measurement.config)] = measurement.metrics.curve_first

    def of(self, config: TrainConfig) -> LearningCurve:
        """Returns the longest curve of what `config` learns; one without points where nothing is known."""
        return self._longest.get(self._setting.curve_key(config), NO_CURVE)

    def state(self, config: TrainConfig) -> Path:
        """Returns where the state lies that extends it."""
        task, graph, hardware = self._setting.key()
        return curve_state(cache_root(), graph, task, self._setting.curve_key(config), hardware, MEASUREMENT_VERSION)

    def cut(self, config: TrainConfig, metrics: Metrics, plan: CurvePlan) -> LearningCurve | None:
        """Returns the part of it that a trial of `config` trains as `plan` says, or None where that is not known.

        Args:
            config: A configuration.
            metrics: What was measured of it.
            plan: How far its curve is trained.
        """
        longest = self.of(config)
        # Where its first point lies is not known of old rows without a point; it has one mini-batch at least.
        first = longest.batches[0] if longest.batches else self._first.get(self._setting.curve_key(config), 1)
        return CurveRules.of(plan, metrics).cut(longest, first)
