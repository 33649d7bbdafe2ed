"""The table of measured works: contestants and goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.engine.workers.work import Work

#: Who is measured: label, engine, style of the model.
Contestant = Literal["a3gnn", "DGL", "PyG", "PyG CSR"]
CONTESTANTS: dict[Contestant, tuple[str, Literal["library", "tuned"]]] = {
    "a3gnn": ("a3gnn", "library"),
    "DGL": ("dgl", "library"),
    "PyG": ("pyg", "library"),
    "PyG CSR": ("pyg", "tuned"),
}


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio that a3gnn should reach against some peers.

    Attributes:
        against: The peers; the fastest of them counts.
        every: Minimum ratio on each graph.
        mean: Minimum geometric mean over the graphs, if there is one.
    """

    against: tuple[Contestant, ...]
    every: float
    mean: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A work that is measured on every graph.

    Attributes:
        key: Short name, also the command line's.
        label: For people.
        work: The work.
        contestants: Who is measured.
        goals: What a3gnn should reach.
    """

    key: str
    label: str
    work: Work
    contestants: tuple[Contestant, ...]
    goals: tuple[Goal, ...]


_SAMPLERS: tuple[Contestant, ...] = ("a3gnn", "DGL", "PyG")
_TRAINERS: tuple[Contestant, ...] = ("a3gnn", "DGL", "PyG", "PyG CSR")
_ANY_SAMPLER: tuple[Contestant, ...] = ("DGL", "PyG")
_STEP_GOALS = (Goal(("DGL",), 1.5, 2.0), Goal(("PyG",), 0.0, 8.0), Goal(("PyG CSR",), 0.0, 1.5))
_NO_SLOWER = (Goal(("DGL", "PyG", "PyG CSR"), 1.0),)

ROWS: tuple[Row, ...] = (
    Row("sample-25-10", "sample (25,10)", Work("sample"), _SAMPLERS, (Goal(_ANY_SAMPLER, 7.0),)),
    Row("sample-15-10-5", "sample (15,10,5)", Work("sample", (15, 10, 5)), _SAMPLERS, (Goal(_ANY_SAMPLER, 7.0),)),
    Row("biased", "biased, static", Work("biased"), _SAMPLERS, (Goal(_ANY_SAMPLER, 30.0),)),
    Row("load", "sample + gather", Work("load"), _SAMPLERS, (Goal(_ANY_SAMPLER, 4.0),)),
    Row("train-sage", "step SAGE-256", Work("train", model="sage"), _TRAINERS, _STEP_GOALS),
    Row("train-gcn", "step GCN-256", Work("train", model="gcn"), _TRAINERS, _STEP_GOALS),
    Row("train-gat", "step GAT 4x64", Work("train", model="gat"), _TRAINERS, _NO_SLOWER),
    Row("train-gin", "step GIN-256", Work("train", model="gin"), _TRAINERS, _NO_SLOWER),
)

FIRST_BATCH_SECONDS = 0.3
SAMPLER_SHARE = 0.75
GATHER_SHARE = 0.95
#: Share of its memory by which a process may grow without a leak: arenas and buffers that grow late. Guess.
GROWTH_SHARE = 0.01
