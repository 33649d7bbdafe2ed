"""`Step`: what a trainer says of each mini-batch."""

from __future__ import annotations

from dataclasses import dataclass

from a3gnn.measurement import StageSeconds


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
    """

    epoch: int
    index: int
    loss: float
    seeds: int
    input_nodes: int
    hits: int
    sampled_edges: int
    seconds: StageSeconds
