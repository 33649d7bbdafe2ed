"""`Step`: what a trainer says of each mini-batch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from a3gnn.measurement import StageSeconds
from a3gnn.runtime.batch import MiniBatch
from a3gnn.training.traffic import Traffic
from a3gnn.training.work import Traversed, traversed


@dataclass(frozen=True, slots=True)
class TrainerStep:
    """What one of this process' trainers did for a mini-batch.

    Attributes:
        trainer: Its name.
        seeds: Seeds of its share.
        transfer_s: Seconds in which the share was sent to its device; on a virtual clock where that is simulated.
        train_s: Seconds of forward and backward propagation, waiting for others left out; likewise.
    """

    trainer: str
    seeds: int
    transfer_s: float
    train_s: float


@dataclass(frozen=True, slots=True)
class Step:
    """One mini-batch that has been trained on.

    Attributes:
        epoch: Epoch, from 0.
        index: Place in the epoch, from 0.
        loss: Mean loss of its seeds.
        seeds: Seeds, of all shares where it was cut.
        input_nodes: Rows of features that it read; of the share that was trained here, as all that follows.
        hits: Those that the cache served.
        sampled_edges: Sampled edges.
        seconds: Work in each stage.
        traversed: What NVTPS and MTEPS count; of a share without seeds nothing.
        trainers: What each trainer of this process did, where there are several; figures above are then of all.
        traffic: Of each rank of a synchronous algorithm, which then trains a mini-batch of its own; none otherwise.
    """

    epoch: int
    index: int
    loss: float
    seeds: int
    input_nodes: int
    hits: int
    sampled_edges: int
    seconds: StageSeconds
    traversed: Traversed
    trainers: tuple[TrainerStep, ...] = ()
    traffic: tuple[Traffic, ...] = ()


def step_of(batch: MiniBatch, loss: float, train_s: float) -> Step:
    """Returns what is said of `batch`, which has been trained on in `train_s` seconds with a mean loss of `loss`."""
    transfer = 0.0 if batch.arrival is None else batch.arrival.seconds()  # there is none on the host
    return Step(
        epoch=batch.epoch,
        index=batch.index,
        loss=loss,
        seeds=batch.subgraph.sampled.num_seeds,
        input_nodes=batch.subgraph.num_nodes,
        hits=batch.hits,
        sampled_edges=batch.subgraph.num_edges,
        seconds=dataclasses.replace(batch.seconds, transfer=transfer, train=train_s),
        traversed=traversed([batch.subgraph]),
    )
