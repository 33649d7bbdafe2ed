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
        loss: Mean cross-entropy of its seeds.
        seeds: Seeds.
        input_nodes: Rows of features that it read.
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
