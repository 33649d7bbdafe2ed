"""`first_shares`: what processors and accelerators begin with, by the performance model (HyScale-GNN, section V)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.layer_cost import OPERATORS
from a3gnn.option_names import option
from a3gnn.sampling.sampler import NeighbourSampler
from a3gnn.task import Task
from a3gnn.training.checkpoint import SavedShares
from a3gnn.training.hybrid.assignment import divide
from a3gnn.training.hybrid.counts import CountCurve
from a3gnn.training.hybrid.devices.device import Device
from a3gnn.training.hybrid.model.performance import ModelShape, PerformanceModel
from a3gnn.training.hybrid.model.several import Division, fastest_division
from a3gnn.training.hybrid.model.speeds import probed_speeds
from a3gnn.training.hybrid.schedule import Schedule

#: Parts of a mini-batch whose nodes and edges are counted; between them they are interpolated. Guess.
_COUNTED = (1 / 16, 1 / 4, 1 / 2, 1)


class FirstShares(NamedTuple):
    """The shares that training begins with.

    Attributes:
        shares: Seeds of each trainer.
        why: For people: which, and by what; None where trainers are of a kind and have equal shares.
    """

    shares: tuple[int, ...]
    why: str | None = None


def first_shares(
    devices: Sequence[Device],
    graph: Graph,
    config: TrainConfig,
    task: Task,
    schedule: Schedule,
    hardware: Callable[[], Hardware],
    ahead: int,
    kept: SavedShares | None = None,
) -> FirstShares:
    """Returns equal shares of trainers of a kind; between processors and accelerators what is predicted the fastest.

    Args:
        devices: Of the trainers.
        graph: What is trained on.
        config: How.
        task: What.
        schedule: Which stages overlap.
        hardware: Returns this machine with what the probe found; called where it matters.
        ahead: Threads that sample, and that load.
        kept: What a run that goes on began with: among trainers of the same kinds, these shares stand for what would be
            predicted now.
    """
    batch, kinds = config.batch_size, [device.kind for device in devices]
    if len(set(kinds)) == 1 or task.is_own:  # which several trainers refuse
        return FirstShares(tuple(divide(batch, [1.0] * len(devices))))
    if kept is not None and (list(kept.kinds), sum(kept.shares)) == (kinds, batch):
        return FirstShares(kept.shares, f"trainers: shares {','.join(map(str, kept.shares))}, as the run began with")
    seeds = min(batch, len(graph.train_ids))
    here = [device for device in devices if device.kind == "processor"]
    there = [device for device in devices if device.kind == "accelerator"]
    model = _model(there, graph, config, task, schedule, hardware(), seeds)

    def fits(share: int) -> bool:
        return all(device.fits(model.counts.at(share)) for device in there)

    found = fastest_division(model, seeds, [device.threads for device in here], ahead=ahead, fits=fits)
    in_order = iter(divide(batch, [float(share) for share in found.shares]))
    places = [place for kind in ("processor", "accelerator") for place, own in enumerate(kinds) if own == kind]
    shares = dict(zip(places, in_order, strict=True))
    given = tuple(shares[place] for place in range(len(devices)))
    return FirstShares(given, _why(given, found))


def _model(
    accelerators: Sequence[Device],
    graph: Graph,
    config: TrainConfig,
    task: Task,
    schedule: Schedule,
    hardware: Hardware,
    seeds: int,
) -> PerformanceModel:
    """Returns the model of this machine, with `accelerators` in place of the devices that the probe found."""
    sampler = NeighbourSampler(graph.indptr, graph.indices, config.fanouts(task), seed=task.seed)
    counted = sorted({max(1, round(seeds * part)) for part in _COUNTED})
    counts = CountCurve.sampled(sampler, graph.train_ids, counted)
    widths = (graph.num_features, *(task.hidden_channels,) * (task.num_layers - 1), graph.num_classes)
    # Shares' sums of dense rows are made while these are gathered, but of gcn, which weighs them by degrees.
    fused = OPERATORS[task.model].input_widths > 0 and task.model != "gcn" and not graph.features.is_sparse
    speeds = dataclasses.replace(
        probed_speeds(hardware, counts), accelerators=tuple(device.speeds(hardware.profile) for device in accelerators)
    )
    return PerformanceModel(ModelShape(task.model, widths, fused, maps_first=True), counts, speeds, schedule)


def _why(shares: Sequence[int], found: Division) -> str:
    times = found.times
    assert times.iteration is not None, "it was predicted"
    slowest = max(times.by_stage, key=times.by_stage.__getitem__)
    return (
        f"trainers: shares {','.join(map(str, shares))} by the performance model, which predicts "
        f"{1e3 * times.iteration:.3g} ms per mini-batch, {slowest} the longest stage; {option('trainer_shares')} gives "
        "others"
    )
