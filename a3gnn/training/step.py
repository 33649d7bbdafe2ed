"""`Step`: what a trainer says of each mini-batch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from a3gnn.measurement import StageSeconds
from a3gnn.nvtps import mteps, nvtps
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.ranks.exchange import summed
from a3gnn.sampling.counts import counts_of
from a3gnn.sampling.subgraph import Subgraph

if TYPE_CHECKING:
    from a3gnn.ranks.peers import Ranks


@dataclass(frozen=True, slots=True)
class Traffic:
    """Counts of one mini-batch, or sums over several.

    Attributes:
        batches: Mini-batches; an iteration in which the rank was idle has none.
        moved: Those of another rank's part (two-stage scheduling).
        seeds: Seeds.
        rows: Rows of features that it needed.
        hits: Those that its own device's memory had.
        host_bytes: Bytes of the others, as often as they passed between host memory and a device.
        gradient_bytes: Bytes of gradients that it gave and took.
        activation_bytes: Bytes of partial sums, and of their gradients, that it gave other ranks and took (P3).
        structure_bytes: Bytes of mini-batches' node ids and edges, likewise.
    """

    batches: int = 0
    moved: int = 0
    seeds: int = 0
    rows: int = 0
    hits: int = 0
    host_bytes: int = 0
    gradient_bytes: int = 0
    activation_bytes: int = 0
    structure_bytes: int = 0

    @property
    def beta(self) -> float:
        """Share of the rows that its own memory had, in [0, 1]; 1 of none (HitGNN, Eq. 7)."""
        return self.hits / self.rows if self.rows else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Returns the counts and beta as JSON types."""
        return {**dataclasses.asdict(self), "beta": self.beta}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Traffic:
        """Returns the counts of `to_dict`."""
        return cls(**{name: value for name, value in fields.items() if name != "beta"})

    @classmethod
    def sum(cls, some: Sequence[Traffic]) -> Traffic:
        """Returns the sums of `some`."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: sum(getattr(one, name) for one in some) for name in names})


def by_rank(some: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Returns the sums of each rank's counts over `some`, of which each holds those of every rank, as JSON types."""
    return [Traffic.sum([Traffic.from_dict(one) for one in rank]).to_dict() for rank in zip(*some, strict=True)]


class Traversed(NamedTuple):
    """Nodes and edges of all layers of a mini-batch, of all shares; nodes that two shares have count twice."""

    nodes: int
    edges: int


def traversed(parts: Iterable[Subgraph]) -> Traversed:
    """Returns what a mini-batch traverses that is trained in `parts`; one without seeds only keeps step."""
    counts = [counts_of(part) for part in parts if part.share is None or part.share.num_seeds]
    return Traversed(
        int(sum(count.traversed_nodes for count in counts)), int(sum(count.traversed_edges for count in counts))
    )


class EpochWork(NamedTuple):
    """Sums over mini-batches; NaN of what is not known.

    Attributes:
        nodes: Nodes over all layers.
        edges: Edges over all layers.
        joules: That the machines took.
    """

    nodes: float
    edges: float
    joules: float

    def plus(self, other: Sequence[float]) -> Self:
        """Returns the sums of both."""
        return type(self)(*(own + more for own, more in zip(self, other, strict=True)))

    def over(self, ranks: Ranks | None) -> Self:
        """Returns the sums over all `ranks`, each of which calls it; without any, this."""
        return self if ranks is None else type(self)(*summed(ranks, np.array(self)).tolist())


class WorkFigures(NamedTuple):
    """What an epoch is told by; None where it is not known.

    Attributes:
        nvtps: Vertices traversed per second.
        mteps: Millions of traversed edges per second.
        kilojoules: That the machines took.
    """

    nvtps: float | None = None
    mteps: float | None = None
    kilojoules: float | None = None

    @classmethod
    def of(cls, work: EpochWork, seconds: float) -> Self:
        """Returns the figures of `work`, which took `seconds` of training."""
        found = float(nvtps(work.nodes, seconds)), mteps(work.edges, seconds), work.joules / 1e3
        return cls(*(None if math.isnan(figure) else figure for figure in found))


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
