"""A PyG user's own loop: as written, with two lines changed, with the rate alone, and tuned; seconds to its accuracy.

    python -m benchmarks.own_loop [GRAPH ...] [--seeds 3] [--epochs 10] [--budget 3min] [--json FILE]

The script is PyG's GraphSAGE with NeighborLoader, in PyG's form: every layer on the whole mini-batch. The tune tunes
this model. Where neither pyg-lib nor torch-sparse is installed, which NeighborLoader needs, a3gnn's Loader takes its
place, and the gains are lower bounds. The accuracy to reach is the best one on validation nodes that the script reaches
in its epochs with the same seed, less --drop points. "rate x2" is two lines with twice the learning rate, which rises
to it as a tuned one does: the share of the tuned gain that needs no tune. Sides take turns within a seed. Seconds count
the loader's construction and training, and not evaluation, which all sides do after each epoch, from all neighbors.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from a3gnn import Loader, Task, TunedConfig, accelerate, tune
from a3gnn.report.text import describe_config
from a3gnn.units import parse_budget
from benchmarks.accelerate import data_of
from benchmarks.report import median_and_range, write_report
from benchmarks.tuned_gain import RATES, rate_alone

#: Real graphs that are compared without arguments; PyG takes 3 s to 6 min for an epoch of them.
_GRAPHS = ("amazon_computers", "wordnet_en", "fb100_multi_a")
#: A side may take this many times the script's epochs; larger mini-batches take more epochs.
_MORE_EPOCHS = 6

Batches = Callable[[Data, int], Any]
Prepare = Callable[[torch.nn.Module, torch.optim.Optimizer], Any]


class Side(NamedTuple):
    """One way to run the loop.

    Attributes:
        name: For people.
        loader: Makes the loader from the data and a seed.
        prepare: Prepares the model; returns the schedule, or None.
    """

    name: str
    loader: Batches
    prepare: Prepare


class Curve(NamedTuple):
    """The seconds of training, and the accuracy on validation nodes in [0, 1], after each epoch."""

    seconds: list[float]
    accuracy: list[float]

    def reaching(self, target: float) -> float | None:
        """Returns the seconds to `target`; None if it was not reached."""
        pairs = zip(self.seconds, self.accuracy, strict=True)
        return next((seconds for seconds, accuracy in pairs if accuracy >= target), None)


def make_model(in_channels: int, out_channels: int) -> GraphSAGE:
    """Returns the model of all sides, and of the tune's trials."""
    return GraphSAGE(in_channels, 256, 2, out_channels, dropout=0.5)


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("graphs", nargs="*", default=_GRAPHS, metavar="GRAPH", help="a real graph, or any --dataset")
    made.add_argument("--seeds", type=int, default=3)
    made.add_argument("--epochs", type=int, default=10, help="of the script")
    made.add_argument("--fanouts", type=int, nargs=2, default=[25, 10])
    made.add_argument("--learning-rate", type=float, default=0.003)
    made.add_argument("--drop", type=float, default=0.5, help="points below the script's best accuracy")
    made.add_argument("--budget", default="3min", help="of the tune")
    made.add_argument("--folder", type=Path, help="where tunes are kept; by default a temporary folder")
    made.add_argument("--json", type=Path, help="write the result to this file, beside those of other graphs in it")
    return made


def script_loader() -> tuple[str, Callable[..., Any]]:
    """Returns the name and the class of the script's loader."""
    from torch_geometric import typing

    if typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE:
        from torch_geometric.loader import NeighborLoader

        return "PyG as written", NeighborLoader
    return "PyG's layers on a3gnn's Loader (no pyg-lib)", Loader


def sides_of(options: argparse.Namespace, tuned: TunedConfig) -> list[Side]:
    """Returns the script, the script with two lines changed, these with each of `RATES`, and the tuned one."""
    name, script = script_loader()

    def plain(made: Callable[..., Any]) -> Batches:
        asked = {"batch_size": 1024, "shuffle": True}
        return lambda data, _: made(data, options.fanouts, data.train_mask, **asked)

    return [
        Side(name, plain(script), lambda model, optimizer: None),
        Side("two lines", plain(Loader), lambda model, optimizer: accelerate(model) and None),
        *(Side(f"two lines, rate x{rate:g}", plain(Loader), rate_alone(tuned, rate).apply) for rate in RATES),
        Side(
            "tuned",
            lambda data, seed: Loader(data, options.fanouts, data.train_mask, shuffle=True, seed=seed, config=tuned),
            tuned.apply,
        ),
    ]


def train(
    side: Side,
    data: Data,
    options: argparse.Namespace,
    seed: int,
    epochs: int,
    target: float | None,
    batches: int | None = None,
) -> Curve:
    """Returns the curve of one training of at most `epochs` epochs, of all or some mini-batches, that ends at `target`.

    Args:
        side: How to run the loop.
        data: The graph.
        options: Of the command line.
        seed: Of weights and mini-batches.
        epochs: Most epochs.
        target: An accuracy in [0, 1], or None.
        batches: Most mini-batches of an epoch; None trains all.
    """
    torch.manual_seed(seed)
    model = make_model(data.num_features, int(data.y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate)
    taken, curve = 0.0, Curve([], [])
    begin = time.perf_counter()
    schedule, loader = side.prepare(model, optimizer), side.loader(data, seed)
    for _ in range(epochs):
        model.train()
        for batch in islice(loader, batches):
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
            if schedule is not None:
                schedule.step()
        taken += time.perf_counter() - begin
        curve.seconds.append(taken)
        curve.accuracy.append(_accuracy(model, data))
        if target is not None and curve.accuracy[-1] >= target:
            break
        begin = time.perf_counter()
    return curve


@torch.no_grad()
def _accuracy(model: torch.nn.Module, data: Data) -> float:
    """Returns the accuracy on validation nodes, by an accelerated copy: PyG's layers would need gigabytes."""
    own = accelerate(copy.deepcopy(model)).eval()
    right = own(data.x, data.edge_index).argmax(dim=1) == data.y
    return right[data.val_mask].float().mean().item()


class Compared(NamedTuple):
    """The curves of all sides by their names, one per seed, the script's first; and the accuracy to reach by seed."""

    curves: dict[str, list[Curve]]
    targets: list[float]

    def seconds(self) -> dict[str, list[float | None]]:
        """Returns each side's seconds to the script's accuracy, by seed; None if it was not reached."""
        return {
            name: [curve.reaching(target) for curve, target in zip(curves, self.targets, strict=True)]
            for name, curves in self.curves.items()
        }


def compare(data: Data, tuned: TunedConfig, options: argparse.Namespace) -> Compared:
    """Returns the curves of all sides; those of the others end at the script's accuracy."""
    script, *others = sides_of(options, tuned)
    for side in (script, *others):
        train(side, data, options, 0, 1, None, batches=2)  # compiles and warms up
    compared = Compared({side.name: [] for side in (script, *others)}, [])
    for seed in range(options.seeds):
        curve = train(script, data, options, seed, options.epochs, None)
        target = max(curve.accuracy) - options.drop / 100
        compared.targets.append(target)
        compared.curves[script.name].append(curve)
        for side in others:
            compared.curves[side.name].append(train(side, data, options, seed, _MORE_EPOCHS * options.epochs, target))
    return compared


def gains(seconds: dict[str, list[float | None]]) -> dict[str, list[float]]:
    """Returns each other side's gain over the script, by seed; 0 if it missed the accuracy."""
    script = next(iter(seconds.values()))
    assert all(one is not None for one in script)
    pairs = {name: zip(script, seconds[name], strict=True) for name in list(seconds)[1:]}
    return {name: [base / one if base and one else 0.0 for base, one in both] for name, both in pairs.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints a table."""
    options = parser().parse_args(arguments)
    console, results = Console(), {}
    asked = {"options": {"seeds": options.seeds, "epochs": options.epochs}}
    table = Table("graph", "side", "seconds to the script's accuracy", "gain", "configuration")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for number, spec in enumerate(options.graphs):
            data = data_of(spec)
            task = Task(fanouts=tuple(options.fanouts), learning_rate=options.learning_rate)
            out = folder / f"{number}-{spec.partition(':')[0]}"
            given = {
                "model": "benchmarks.own_loop:make_model",
                "task": task,
                "priority": "time",
                "budget": parse_budget(options.budget),
                "out": out,
            }
            tuned = tune(data, **given, resume=out.exists(), notify=lambda line: None).tuned
            compared = compare(data, tuned, options)
            all_seconds = compared.seconds()
            gained = gains(all_seconds)
            for name, seconds in all_seconds.items():
                reached = [one for one in seconds if one is not None]
                text = (
                    median_and_range(reached)
                    if len(reached) == len(seconds)
                    else f"missed {len(seconds) - len(reached)} times"
                )
                what = describe_config(tuned.config) if name == "tuned" else ""
                table.add_row(spec, name, text, median_and_range(gained.get(name, [1.0]), 1), what)
            curves = {name: [one._asdict() for one in some] for name, some in compared.curves.items()}
            result = {"seconds": all_seconds, "gains": gained, "config": tuned.config.to_dict()}
            results[Path(spec).stem] = asked | result | {"curves": curves, "targets": compared.targets}
            console.print(f"{spec}: {gained}")
    console.print(table)
    if options.json:
        before = json.loads(options.json.read_text())["graphs"] if options.json.exists() else {}
        write_report(options.json, graphs=before | results)


if __name__ == "__main__":
    main()
