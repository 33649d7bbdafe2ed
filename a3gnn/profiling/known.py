"""Findings of earlier trials that later ones need not repeat: learning curves by learning key, failed partitions."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from a3gnn.config import LearningKey, Partitioner, TrainConfig
from a3gnn.learning_curve import NO_CURVE, LearningCurve
from a3gnn.measurement import MEASUREMENT_VERSION, Failure, Measurement, Metrics, keep_longest
from a3gnn.profiling.request import PARTITIONING, CurvePlan, CurveRules
from a3gnn.setting import Setting
from a3gnn.storage.cache import cache_root

#: Most bytes of all states together: enough for some hundred common models of up to a few megabytes each.
MOST_BYTES = 1 << 30
_TAKEN_OVER = " (taken over from an earlier trial)"


class StoredCurves:
    """The longest curve of each `TrainConfig.curve_key`: configurations with one key learn the same.

    If measured times influence a choice, they learn the same only up to rounding (`TrainConfig.learning_key`).
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._longest: dict[LearningKey, LearningCurve] = {}
        self._first: dict[LearningKey, int] = {}

    def learn(self, measurement: Measurement) -> None:
        """Keeps the curve of `measurement` if it is the longest, and the position of its first point.

        Draws that were biased towards the cache of an old policy differ from those of today's, so it learned otherwise.
        """
        biased = measurement.old_policy and measurement.config.bias_rate != 1
        if biased or measurement.setting.key() != self._setting.key():
            return
        keep_longest(self._longest, measurement)
        if measurement.metrics is not None and measurement.metrics.curve_first is not None:
            self._first[measurement.config.curve_key(self._setting.task)] = measurement.metrics.curve_first

    def of(self, config: TrainConfig) -> LearningCurve:
        """Returns the longest curve known for `config`; a curve without points if none is known."""
        return self._longest.get(config.curve_key(self._setting.task), NO_CURVE)

    def state(self, config: TrainConfig) -> Path:
        """Returns the path of the state that extends the curve of `config`."""
        task, graph, hardware = self._setting.key()
        return curve_state(
            cache_root(), graph, task, config.curve_key(self._setting.task), hardware, MEASUREMENT_VERSION
        )

    def cut(self, config: TrainConfig, metrics: Metrics, plan: CurvePlan) -> LearningCurve | None:
        """Returns the part of the curve that a trial of `config` would train under `plan`; None if it is not known."""
        longest = self.of(config)
        # Old rows without a point do not tell where the first point lies; it needs at least one mini-batch.
        first = longest.batches[0] if longest.batches else self._first.get(config.curve_key(self._setting.task), 1)
        return CurveRules.of(plan, metrics).cut(longest, first)


def curve_state(root: Path, *training: object) -> Path:
    """Returns the path of a learning curve's state in the cache folder `root`, whether it exists or not.

    Args:
        root: The cache folder.
        training: Everything that decides the curve bit for bit, as JSON types.
    """
    name = hashlib.blake2b(json.dumps(training).encode(), digest_size=16).hexdigest()
    return root / "curves" / f"{name}.pt"


def drop_oldest(root: Path, most_bytes: int = MOST_BYTES) -> None:
    """Removes the oldest states until the others take at most `most_bytes`.

    A curve without its state is trained again from its start when it is to be extended.
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


def failed_partitioning(measurement: Measurement) -> tuple[Partitioner, int] | None:
    """Returns the partitioner and the number of parts that could not be made, or None for any other outcome."""
    outcome = measurement.outcome
    if not (isinstance(outcome, Failure) and outcome.detail.startswith(PARTITIONING)):
        return None
    return measurement.config.partitioner, measurement.config.num_partitions


class PartitionFailures:
    """The known failures to partition one graph on one machine."""

    def __init__(self) -> None:
        self._known: defaultdict[tuple[Partitioner, int], list[Measurement]] = defaultdict(list)

    def learn(self, measurement: Measurement) -> None:
        """Records `measurement` if its partitions were tried and failed."""
        parts = failed_partitioning(measurement)
        if parts is not None and isinstance(measurement.outcome, Failure) and not measurement.outcome.taken_over_from:
            self._known[parts].append(measurement)

    def of(self, config: TrainConfig, holds: Callable[[Measurement], bool]) -> Failure | None:
        """Returns the known failure to make the partitions of `config`, marked as taken over, or None.

        Args:
            config: A canonical configuration.
            holds: Whether a measurement counts for a trial under the current limits.
        """
        for known in reversed(self._known[config.partitioner, config.num_partitions]):
            if isinstance(known.outcome, Failure) and holds(known):
                detail = known.outcome.detail + _TAKEN_OVER
                return dataclasses.replace(known.outcome, detail=detail, taken_over_from=known.id)
        return None
