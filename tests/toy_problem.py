"""The toy problem: an invented, noiseless cost model of training, on which searchers and environments are tested.

It has the structure of the tuner's problem (mixed knobs, idle knobs, a limit that cuts the front), but all constants
are invented: its figures say nothing about any graph or machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import KNOBS
from a3gnn.measurement import METRICS
from a3gnn.prediction import Prediction
from a3gnn.space import SearchSpace

_GIB = 2**30


#: Knobs that the toy models.
_KNOBS = (
    *("batch_size", "num_partitions", "bias_rate", "num_workers", "cache_bytes", "parallel_mode", "feature_tier"),
)


@dataclass(frozen=True)
class ToyProblem:
    """An invented graph on an invented machine without an accelerator.

    Attributes:
        train_seeds: Seeds per epoch.
        row_kib: KiB per feature row.
        reads_per_s: Sampled neighbors per second and thread.
        copy_gib_per_s: GiB of rows gathered per second.
        flops_share: Training time per seed, relative.
        cores: Cores.
        skew: How unequal hotness is, in (0, 1).
    """

    train_seeds: int = 100_000
    row_kib: float = 0.8
    reads_per_s: float = 2e7
    copy_gib_per_s: float = 4.0
    flops_share: float = 1.0
    cores: int = 4
    skew: float = 0.5

    @classmethod
    def draw(cls, random: np.random.Generator) -> ToyProblem:
        """Returns a random toy."""
        return cls(
            train_seeds=int(10 ** random.uniform(4, 6)),
            row_kib=float(2 ** random.uniform(-2, 2)),
            reads_per_s=float(10 ** random.uniform(6.7, 8)),
            copy_gib_per_s=float(2 ** random.uniform(0, 3)),
            flops_share=float(2 ** random.uniform(-2, 2)),
            cores=int(random.choice([2, 4, 8, 16])),
            skew=float(random.uniform(0.2, 0.8)),
        )

    @property
    def feature_bytes(self) -> int:
        """Bytes of all feature rows."""
        return int(self.train_seeds * 10 * self.row_kib * 1024)

    def features(self) -> NDArray[np.float32]:
        """Returns what a policy may know of the toy, float32, shape (7,)."""
        scales = (self.train_seeds, self.row_kib, self.reads_per_s, self.copy_gib_per_s, self.flops_share, self.cores)
        return np.append(np.log2(scales), self.skew).astype(np.float32)

    def space(self, fine: bool = False) -> SearchSpace:
        """Returns the search space: 12,000 rows, 7,560 of them distinct in effect; if `fine`, 122,880 and 82,280."""
        shares = np.linspace(0, 0.8, 16) if fine else np.array([0.0, 0.1, 0.2, 0.4, 0.8])
        values: dict[str, tuple[Any, ...]] = {
            "cache_bytes": tuple(int(share * self.feature_bytes) for share in shares),
            "batch_size": (64, 128, 256, 512, 1024),
        }
        if fine:
            values["bias_rate"] = tuple(float(2 ** (i / 1.75)) for i in range(8))
            values["num_workers"] = tuple(range(1, 9))
        others = {k.name: k.values if k.name in _KNOBS else (k.default,) for k in KNOBS}
        return SearchSpace.from_dict(others | values)

    def predict(self, space: SearchSpace, rows: NDArray[np.int64]) -> Prediction:
        """Returns the metrics of `rows`, memory's upper bound 5 % above its mean.

        The target takes eight epochs in mini-batches of 1,024, and more in larger ones.
        """
        c = space.columns(rows)
        batch, parts, bias = c["batch_size"], c["num_partitions"], c["bias_rate"]
        mode, disk = c["parallel_mode"], c["feature_tier"] == "disk"
        share = (c["cache_bytes"] / self.feature_bytes) ** (1 - self.skew)
        hits = bias * share / (1 + share * (bias - 1))
        nodes = batch * 60 / (1 + batch / 3000) * (1 - 0.25 * hits) / parts**0.15
        sample = batch * 275 / self.reads_per_s
        gather = nodes * self.row_kib / 2**20 / self.copy_gib_per_s * np.where(disk, 4 - 3 * hits, 1 - 0.3 * hits)
        train = self.flops_share * (batch * 4e-5 + nodes * 4e-7) + 2e-3
        workers = np.minimum(c["num_workers"], self.cores) / (1 + 0.12 * (c["num_workers"] - 1))
        batch_s = np.select(
            [mode == "sequential", mode == "mode1"],
            [sample + gather + train, np.maximum(train, (sample + gather) / workers) * 1.05],
            np.maximum(gather + train, sample / workers) * 1.03,
        )
        rows_bytes = nodes * self.row_kib * 1024
        copies = np.select([mode == "sequential", mode == "mode1"], [1, 1 + c["num_workers"]], 1.3)
        feature_bytes = np.where(disk, 0, self.feature_bytes / parts**0.2)
        memory = 0.4 * _GIB + feature_bytes + c["cache_bytes"] + copies * rows_bytes * 2 + batch * 2e5
        drift = share * (1 - share) * (bias - 1) / (1 + share * (bias - 1))
        accuracy = 0.78 - 0.08 * drift - 0.012 * np.log2(parts) - 0.004 * np.log2(batch / 64) ** 1.5
        epoch_s = batch_s * self.train_seeds / batch
        seconds = 8 * (batch / 1024) ** 0.5 * epoch_s
        columns = dict(zip(METRICS, (1 / epoch_s, np.zeros(len(rows)), memory, accuracy, seconds), strict=True))
        mean = np.stack([columns[name] for name in METRICS], axis=1)
        slack = np.array([0.1, 0.05, 0.05, 0.01, 0.2])
        return Prediction(mean, mean * (1 - slack), mean * (1 + slack))
