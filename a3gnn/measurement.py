"""`Measurement`: the outcome of a trial, `Metrics` or a `Failure`, with everything that it depends on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from a3gnn._fields import Stored, from_fields
from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import LearningKey, TrainConfig
from a3gnn.learning_curve import NO_CURVE, LearningCurve, Pace
from a3gnn.setting import Setting

__all__ = [
    "MEASUREMENT_VERSION",
    "METRICS",
    "Failure",
    "FailureKind",
    "Measurement",
    "Metrics",
    "StageSeconds",
    "default_accuracy_epochs",
    "distinct",
    "keep_longest",
]

#: Columns of every prediction, in this order.
METRICS: tuple[str, ...] = (
    *("throughput_epochs_per_s", "peak_device_bytes", "peak_host_bytes", "val_accuracy", "seconds_to_accuracy"),
)

#: Raised when a change of the engine or of the protocol makes older measurements incomparable.
MEASUREMENT_VERSION = 7

#: About how many seeds a trial trains on for its accuracy, and the most epochs that it may take for them. Guesses.
_ACCURACY_SEEDS = 50_000
_MAX_ACCURACY_EPOCHS = 20
#: Prefix of the ids that are hashes of a row's content, for rows that were stored without an id.
_CONTENT_PREFIX = "content:"


@dataclass(frozen=True, slots=True)
class StageSeconds(Stored):
    """Mean seconds of work per mini-batch in each stage; if stages overlap, the sum exceeds its duration."""

    sample: float
    gather: float
    transfer: float
    train: float


@dataclass(frozen=True, slots=True)
class Metrics(Stored):
    """Measurements of one trial; `docs/design/measurement.md` defines each of them.

    Figures at equal training time are derived from them (`a3gnn.figures`).

    Attributes:
        throughput_epochs_per_s: Epochs per second over all train seeds, the median of `throughput_replicates`. Epoch
            overhead is included. Evaluation is excluded, and since version 5 also the time that the hypervisor gave to
            other machines.
        peak_host_bytes: Peak of anonymous and shared-anonymous memory over the process tree.
        peak_device_bytes: Peak device memory of all processes, context included; 0 without a device.
        resident_file_bytes: Peak of resident file-backed memory, which the system can reclaim.
        test_accuracy: Test accuracy in [0, 1] with the weights of the curve's best point; None unless a whole curve was
            trained. In version 2: at the best validation epoch.
        val_accuracy: In version 2: validation accuracy at the best epoch, in [0, 1]; None since.
        accuracy_epochs: In version 2: epochs trained for the accuracy; 0 since.
        timed_batches: Whole mini-batches that were timed after warm-up.
        batches_per_epoch: Mini-batches per epoch.
        epoch_overhead_s: Seconds of an epoch outside its mini-batches.
        stage_seconds: Mean seconds of work per mini-batch in each stage.
        cache_hit_rate: Share of input rows that the cache served.
        cache_bytes: Bytes that the cache actually took.
        input_nodes_per_batch: Mean distinct input nodes per mini-batch.
        sampled_edges_per_batch: Mean sampled edges per mini-batch.
        throughput_replicates: Epochs per second of each timed window.
        disturbed_windows: Windows that were timed again because other processes took too much of the cores.
        setup_seconds: Seconds before the first mini-batch: partitions, orders, caches and tables.
        curve: Learning curve of the configuration's learning key, as far as it was trained by the end of the trial;
            None if no curve was requested, and in version 2.
        curve_train_seconds: Seconds of training the curve's new mini-batches.
        curve_eval_seconds: Seconds of evaluating its new points.
        curve_first: Mini-batches before the curve's first point, which tell how long a curve without points has had
            none; None if no curve was requested, and in rows from before this field.
        rehearsal_seconds: Seconds of training and evaluating for the peak alone, because the curve got few new points;
            0 if it got enough or was not requested, and in rows from before this field.
    """

    throughput_epochs_per_s: float
    peak_host_bytes: int
    peak_device_bytes: int
    resident_file_bytes: int
    test_accuracy: float | None
    val_accuracy: float | None
    accuracy_epochs: int
    timed_batches: int
    batches_per_epoch: int
    epoch_overhead_s: float
    stage_seconds: StageSeconds
    cache_hit_rate: float
    cache_bytes: int
    input_nodes_per_batch: float
    sampled_edges_per_batch: float
    throughput_replicates: tuple[float, ...] = ()
    disturbed_windows: int = 0
    setup_seconds: float = 0.0
    curve: LearningCurve | None = None
    curve_train_seconds: float = 0.0
    curve_eval_seconds: float = 0.0
    curve_first: int | None = None
    rehearsal_seconds: float = 0.0

    @property
    def pace(self) -> Pace:
        """Seconds of set-up and mini-batches per second."""
        return Pace(self.setup_seconds, self.throughput_epochs_per_s * self.batches_per_epoch)

    @property
    def extrapolated(self) -> bool:
        """Whether the throughput comes from less than an epoch of timed mini-batches."""
        return self.timed_batches < self.batches_per_epoch

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self) | {"curve": None if self.curve is None else self.curve.to_dict()}


class FailureKind(StrEnum):
    """Why a trial has no metrics."""

    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    INVALID = "invalid"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Failure(Stored):
    """A trial that did not finish, kept with its configuration.

    Attributes:
        kind: Why.
        detail: The error and the end of its traceback, for people.
        peak_host_bytes: Peak host memory until the failure.
        limit: The limit that it exceeded (bytes or seconds, by `kind`), or 0.
        tries: Number of attempts.
        taken_over_from: Id of the measurement whose partitioning failed for this trial too, or "".
    """

    kind: FailureKind
    detail: str
    peak_host_bytes: int = 0
    limit: float = 0.0
    tries: int = 1
    taken_over_from: str = ""

    @property
    def transient(self) -> bool:
        """Whether another try may end differently: a crash, or memory that ran out without a broken limit."""
        return self.kind is FailureKind.CRASHED or (self.kind is FailureKind.OUT_OF_MEMORY and not self.limit)

    def describe(self) -> str:
        """Returns the kind and the last line of the detail."""
        last = self.detail.strip().rpartition("\n")[2]
        return f"{self.kind.replace('_', ' ')}: {last}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self) | {"kind": str(self.kind)}


@dataclass(frozen=True, slots=True)
class Measurement:
    """One trial with everything that it depends on.

    Attributes:
        config: The canonical configuration that ran.
        setting: What was trained, on which graph and machine.
        outcome: The metrics, or why the trial failed.
        accuracy_budget: In version 2: epochs requested for the accuracy; 0 since.
        seconds: Duration of the trial, start of its process included, waiting for a free machine excluded.
        version: `MEASUREMENT_VERSION` when it was made.
        created: Time of creation, ISO 8601, UTC.
        id: Copies have equal ids, repetitions do not. Pass "" for rows that were stored without one: they get a hash of
            their content, so that copies of such a row have equal ids.
        old_policy: The cache policy of an older version, which ran in place of `config`'s; "" for none. Stores, ids and
            files keep it, so a store never serves its figures for `config`.
    """

    config: TrainConfig
    setting: Setting
    outcome: Metrics | Failure
    accuracy_budget: int
    seconds: float
    version: int
    created: str
    id: str = ""
    old_policy: str = ""

    def __post_init__(self) -> None:
        if not self.id or self.id.startswith(_CONTENT_PREFIX):  # always hash this object's own content
            object.__setattr__(self, "id", self._content_id())

    @property
    def metrics(self) -> Metrics | None:
        """The metrics, or None if the trial failed."""
        return self.outcome if isinstance(self.outcome, Metrics) else None

    @property
    def failed_by_chance(self) -> bool:
        """Whether it is a transient failure."""
        return isinstance(self.outcome, Failure) and self.outcome.transient

    @property
    def config_key(self) -> str:
        """The key of the configuration that ran."""
        return self.config.key(self.old_policy)

    def to_dict(self) -> dict[str, Any]:
        """Returns the measurement as one JSON object."""
        ran = {"cache_policy": self.old_policy} if self.old_policy else {}
        return {
            "config": self.config.to_dict() | ran,
            **self.setting.to_dict(),
            "metrics" if isinstance(self.outcome, Metrics) else "failure": self.outcome.to_dict(),
            "accuracy_budget": self.accuracy_budget,
            "seconds": self.seconds,
            "version": self.version,
            "created": self.created,
            "id": self.id,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the measurement of `to_dict`."""
        rest = dict(fields)
        metrics, failure = rest.pop("metrics", None), rest.pop("failure", None)
        rest["outcome"] = Metrics.from_dict(metrics) if metrics is not None else Failure.from_dict(failure or {})
        stored = rest["config"]
        rest["config"] = config = TrainConfig.from_dict(stored)
        if stored.get("cache_policy", config.cache_policy) != config.cache_policy:
            rest["old_policy"] = stored["cache_policy"]
        rest["setting"] = Setting.from_dict(fields)
        for name in Setting.__slots__:
            del rest[name]
        return from_fields(cls, rest)

    def _content_id(self) -> str:
        """Returns a hash of the values that distinguish rows stored without an id."""
        asked = (self.accuracy_budget, self.version, self.created, self.seconds)
        if isinstance(self.outcome, Metrics):
            found: tuple[object, ...] = (
                self.outcome.throughput_epochs_per_s,
                self.outcome.peak_host_bytes,
                self.outcome.test_accuracy,
            )
        else:
            found = (str(self.outcome.kind), self.outcome.detail, self.outcome.peak_host_bytes, self.outcome.limit)
        text = json.dumps([self.config_key, *self.setting.key(), *asked, *found])
        return _CONTENT_PREFIX + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def default_accuracy_epochs(graph: GraphCharacteristics) -> int:
    """Returns the epochs that trials on `graph` train for their accuracy: fewer with more train seeds."""
    return min(_MAX_ACCURACY_EPOCHS, max(1, round(_ACCURACY_SEEDS / max(graph.num_train, 1))))


def keep_longest(curves: dict[LearningKey, LearningCurve], measurement: Measurement) -> None:
    """Stores the curve of `measurement` in `curves` if it is longer than the stored one.

    Args:
        curves: The longest curves of one setting so far, by `TrainConfig.curve_key`; changed in place.
        measurement: A measurement of the same setting.
    """
    curve = measurement.metrics and measurement.metrics.curve
    key = measurement.config.curve_key(measurement.setting.task)
    if curve and curve.trained > curves.get(key, NO_CURVE).trained:
        curves[key] = curve


def distinct(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Returns `measurements` without copies, the first of each id; repetitions have different ids and stay."""
    found: dict[str, Measurement] = {}
    for measurement in measurements:
        found.setdefault(measurement.id, measurement)
    return list(found.values())
