"""The policy that ships with a3gnn: loaded here, and trained by `python -m a3gnn.tuning.pretrain FOLDER`."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from a3gnn.config import Task
from a3gnn.errors import UsageError
from a3gnn.hardware import Hardware
from a3gnn.measurement import Measurement
from a3gnn.objectives import Limits, Objectives, Priority, memory_metric
from a3gnn.prediction import Predict, Prediction
from a3gnn.profiling.store.shipped import shipped_measurements, shipped_profiles
from a3gnn.search.grid import Grid
from a3gnn.search.problem import Problem
from a3gnn.seeding import generator
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.tuning.context import context_features
from a3gnn_envs.context import Context
from a3gnn_envs.policy import Policy
from a3gnn_envs.pretraining import train_policy
from a3gnn_surrogate.surrogate import Surrogate

#: Machines simulated per shipped graph, and limits per machine. Guesses.
_MACHINES, _LIMITS = 6, 3
#: A simulated machine's rates are the measured ones times or divided by up to this. Guess.
_RATE_FACTOR = 3


def shipped_policy() -> Policy | None:
    """Returns the policy that ships with a3gnn, or None where there is none that this version reads."""
    folder = shipped_profiles()
    if folder is None or not (folder / "policy").is_dir():
        return None
    try:
        return Policy.load(folder / "policy")
    except UsageError:
        return None


def contexts(measurements: Sequence[Measurement], seed: int) -> Iterator[Context]:
    """Yields the contexts to train on: the graphs of `measurements`, on their machine and on faster and slower ones.

    The surrogate's predictions are taken as the truth. Limits are drawn log-uniformly between the least and the most
    memory, above the lowest 2 % of that range (guess).
    """
    surrogate = Surrogate(seed=seed).fit(measurements)
    seen = {m.setting.graph.fingerprint: m for m in measurements}
    random = generator(seed, "contexts")
    for measurement in seen.values():
        for _ in range(_MACHINES):
            hardware = _simulated(measurement.setting.hardware, random)
            setting = Setting(Task(), measurement.setting.graph, hardware)
            space = SearchSpace.of(setting)
            predict = _predictor(surrogate, setting, space)
            memory = predict(space.enumerate()).column(memory_metric(hardware.has_device), "high")
            features = context_features(setting)
            for share in random.uniform(0.02, 1.0, size=_LIMITS):
                limit = int(memory.min() * (memory.max() / memory.min()) ** share)
                yield Context(space, predict, Limits(host_bytes=limit), hardware.has_device, features)


def _predictor(surrogate: Surrogate, setting: Setting, space: SearchSpace) -> Predict:
    """Returns the surrogate's answers in `setting` on the whole grid of `space`, computed once."""

    def predict(rows: np.ndarray) -> Prediction:
        return surrogate.predict(space.columns(rows), setting)

    anything = Objectives(Limits(), Priority.parse("balanced"), setting.hardware.has_device)
    return Grid(Problem(space, predict, anything, context_features(setting)))


def _simulated(hardware: Hardware, random: np.random.Generator) -> Hardware:
    """Returns a machine like `hardware` whose measured rates are varied by up to `_RATE_FACTOR`, log-uniformly."""
    rates = {
        name: getattr(hardware.profile, name) * _RATE_FACTOR ** random.uniform(-1, 1)
        for name in (
            "random_reads_per_s",
            "copy_bytes_per_s",
            "disk_read_bytes_per_s",
            "gemm_flops_per_s",
            "bf16_gemm_flops_per_s",
            "spmm_bytes_per_s",
            "batch_overhead_s",
        )
    }
    return dataclasses.replace(hardware, profile=dataclasses.replace(hardware.profile, **rates))


def main() -> None:
    """Trains a policy on the shipped profiles and saves it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--evaluations", type=int, default=600_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = list(contexts(shipped_measurements(), options.seed))
    sizes = [tuple(context.space.nvec.tolist()) for context in found]
    common = max(set(sizes), key=sizes.count)
    chosen = [context for context, size in zip(found, sizes, strict=True) if size == common]
    train_policy(chosen, options.evaluations, options.seed).save(options.folder)
    print(f"trained on {len(chosen)} contexts of sizes {common}, {options.evaluations} evaluations: {options.folder}")


if __name__ == "__main__":
    main()
