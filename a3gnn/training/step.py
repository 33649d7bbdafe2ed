"""`Step`: a trainer's figures for each mini-batch; and their sums over epochs and ranks."""

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
from a3gnn.sampling.counts import Counts, counts_of
from a3gnn.sampling.subgraph import Subgraph

if TYPE_CHECKING:
    from a3gnn.ranks.peers import Ranks


@dataclass(frozen=True, slots=True)
class Traffic:
    """A rank's counts for one mini-batch, or sums over several."""

    batches: int = 0  # mini-batches; 0 for an iteration in which the rank was idle
    moved: int = 0  # mini-batches of another rank's part (two-stage scheduling)
    seeds: int = 0
    rows: int = 0  # rows of features that the rank needed
    hits: int = 0  # rows in its own device's memory
    host_bytes: int = 0  # bytes of the other rows, counted each time that they pass between host memory and a device
    gradient_bytes: int = 0  # bytes of gradients sent and received
    activation_bytes: int = 0  # bytes of partial sums and their gradients, sent to other ranks and received (P3)
    structure_bytes: int = 0  # bytes of mini-batches' node ids and edges, sent to other ranks and received

    @property
    def beta(self) -> float:
        """Share of rows in the device's own memory, in [0, 1]; 1 without rows (HitGNN, Eq. 7)."""
        return self.hits / self.rows if self.rows else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Returns the counts and beta as JSON types."""
        return {**dataclasses.asdict(self), "beta": self.beta}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Traffic:
        """Returns the counts from the output of `to_dict`."""
        return cls(**{name: value for name, value in fields.items() if name != "beta"})

    @classmethod
    def sum(cls, some: Sequence[Traffic]) -> Traffic:
        """Returns the sums of `some`."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: sum(getattr(one, name) for one in some) for name in names})


class Traversed(NamedTuple):
    """Nodes and edges of all layers and all shares of a mini-batch; nodes in two shares count twice."""

    nodes: int
    edges: int


@dataclass(frozen=True, slots=True)
class TrainerStep:
    """The work of one of this process' trainers for a mini-batch."""

    trainer: str  # its name
    seeds: int  # seeds of its share
    transfer_s: float  # seconds to send the share to its device; on a virtual clock for a simulated device
    train_s: float  # seconds of forward and backward propagation, without waits for others; on the same clock


@dataclass(frozen=True, slots=True)
class Step:
    """One trained mini-batch.

    Attributes:
        epoch: Epoch, from 0.
        index: Place in the epoch, from 0.
        loss: Mean loss of its seeds.
        seeds: Number of seeds, or of pairs, of the whole mini-batch, over all shares.
        input_nodes: Rows of features read. This and all following figures are for the share trained here.
        hits: Rows that the cache served.
        seconds: Work in each stage.
        traversed: Nodes and edges for NVTPS and MTEPS; 0 for a share without seeds.
        trainers: With several trainers in this process, the work of each; the figures above then cover all of them.
        traffic: With a synchronous algorithm, the traffic of each rank, which trains its own mini-batch; else empty.
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


class EpochWork(NamedTuple):
    """Sums over mini-batches; NaN if unknown."""

    nodes: float  # nodes over all layers
    edges: float  # edges over all layers
    joules: float  # energy of the machines

    def plus(self, other: Sequence[float]) -> Self:
        """Returns the sums of both."""
        return type(self)(*(own + more for own, more in zip(self, other, strict=True)))

    def over(self, ranks: Ranks | None) -> Self:
        """Returns the sums over all `ranks`, which must all call this; returns itself if `ranks` is None."""
        return self if ranks is None else type(self)(*summed(ranks, np.array(self)).tolist())


class WorkFigures(NamedTuple):
    """An epoch's figures; None if unknown."""

    nvtps: float | None = None  # vertices traversed per second
    mteps: float | None = None  # millions of traversed edges per second
    kilojoules: float | None = None  # energy of the machines

    @classmethod
    def of(cls, work: EpochWork, seconds: float) -> Self:
        """Returns the figures of `work`, which took `seconds` of training."""
        found = float(nvtps(work.nodes, seconds)), mteps(work.edges, seconds), work.joules / 1e3
        return cls(*(None if math.isnan(figure) else figure for figure in found))


def step_of(batch: MiniBatch, loss: float, train_s: float) -> Step:
    """Returns the step of `batch`, which was trained in `train_s` seconds with a mean loss of `loss`."""
    transfer = 0.0 if batch.arrival is None else batch.arrival.seconds()  # None on the host
    if batch.typed is None:
        work = traversed([batch.subgraph])
    else:
        counts = Counts.of(batch.subgraph.hop_sizes, batch.typed.view.num_sampled_edges.sum(axis=0))
        work = Traversed(int(counts.traversed_nodes), int(counts.traversed_edges))
    return Step(
        epoch=batch.epoch,
        index=batch.index,
        loss=loss,
        seeds=batch.num_examples,
        input_nodes=batch.subgraph.num_nodes,
        hits=batch.hits,
        sampled_edges=batch.subgraph.num_edges,
        seconds=dataclasses.replace(batch.seconds, transfer=transfer, train=train_s),
        traversed=work,
    )


def by_rank(some: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Returns the sums of each rank's counts, as JSON types; each entry of `some` holds the counts of every rank."""
    return [Traffic.sum([Traffic.from_dict(one) for one in rank]).to_dict() for rank in zip(*some, strict=True)]


def traversed(parts: Iterable[Subgraph]) -> Traversed:
    """Returns the nodes and edges that a mini-batch in `parts` traverses; parts without seeds don't count."""
    counts = [counts_of(part) for part in parts if part.share is None or part.share.num_seeds]
    return Traversed(
        int(sum(count.traversed_nodes for count in counts)), int(sum(count.traversed_edges for count in counts))
    )
