"""A step of the trainer with each built-in model, beside PyG's module of the same shape made native by `accelerate`.

    python -m benchmarks.layers GRAPH ... [--models sage gcn ...] [--steps 4] [--rounds 3]

Both train the same mini-batches in turns: each round runs each for a few steps. The table has medians over rounds, and
the ratio of the times, PyG's module over the built-in model, with the lowest and highest.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from statistics import median

from rich.console import Console
from rich.table import Table
from torch import nn

from a3gnn import Task, TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.training.pyg_modules import pyg_module
from a3gnn.training.request import TrainRequest
from a3gnn.training.trainer import Step, Trainer
from benchmarks.report import median_and_range

MODELS = ("sage", "gcn", "gat", "gin", "gatv2", "transformer")


def sage(in_channels: int, out_channels: int) -> nn.Module:
    """Returns PyG's `GraphSAGE`."""
    return pyg_module(Task(model="sage"), in_channels, out_channels)


def gcn(in_channels: int, out_channels: int) -> nn.Module:
    """Returns PyG's `GCN`."""
    return pyg_module(Task(model="gcn"), in_channels, out_channels)


def gat(in_channels: int, out_channels: int) -> nn.Module:
    """Returns PyG's `GAT`."""
    return pyg_module(Task(model="gat"), in_channels, out_channels)


def gin(in_channels: int, out_channels: int) -> nn.Module:
    """Returns PyG's `GIN`."""
    return pyg_module(Task(model="gin"), in_channels, out_channels)


def gatv2(in_channels: int, out_channels: int) -> nn.Module:
    """Returns PyG's `GAT` of `GATv2Conv`."""
    return pyg_module(Task(model="gatv2"), in_channels, out_channels)


def transformer(in_channels: int, out_channels: int) -> nn.Module:
    """Returns PyG's `BasicGNN` of `TransformerConv`."""
    return pyg_module(Task(model="transformer"), in_channels, out_channels)


def trainer(spec: str, model: str, config: TrainConfig) -> Trainer:
    """Returns the trainer of a built-in model, or of a factory by its name."""
    task = Task() if ":" in model else Task(model=model)
    request = TrainRequest.of(config, spec, task, model if ":" in model else None, None, lambda line: None)
    request = request.described(lambda line: None)
    return Trainer(request.graph, request.config, request.task)


def endless(opened: Trainer) -> Iterator[Step]:
    """Yields the steps of one epoch after the other."""
    for epoch in itertools.count():
        yield from opened.steps(epoch)


def measure(spec: str, model: str, config: TrainConfig, steps: int, rounds: int) -> list[list[float]]:
    """Returns milliseconds per step in each round, of the built-in model and of PyG's module."""
    times: list[list[float]] = [[], []]
    with ExitStack() as stack:
        sides = [
            endless(stack.enter_context(trainer(spec, name, config))) for name in (model, f"benchmarks.layers:{model}")
        ]
        for side in sides:
            for _ in range(3):  # compiles and warms up
                next(side)
        for _ in range(rounds):
            for side, taken in zip(sides, times, strict=True):
                begin = time.perf_counter()
                for _ in range(steps):
                    next(side)
                taken.append(1000 * (time.perf_counter() - begin) / steps)
    return times


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    table = Table("graph", "model", "type", "first layer", "built-in, ms", "PyG's module, ms", "ratio")
    kinds = itertools.product(options.graphs, options.models, ("float32", "bfloat16"), ("sampled", "full"))
    for spec, model, dtype, first in kinds:
        config = TrainConfig(compute_dtype=dtype, input_aggregation=first)
        try:
            own, other = measure(spec, model, config, options.steps, options.rounds)
        except ConfigError:  # there is no table, or it is too large
            continue
        ratios = [late / early for early, late in zip(own, other, strict=True)]
        table.add_row(spec, model, dtype, first, f"{median(own):.2f}", f"{median(other):.2f}", median_and_range(ratios))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
