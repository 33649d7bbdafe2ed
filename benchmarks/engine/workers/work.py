"""Requests to a worker and its answers; standard library only, since peers' environments import it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, Self

Kind = Literal["sample", "biased", "load", "train"]

LEARNING_RATE = 0.003
DROPOUT = 0.5
HEADS = 4


class Unavailable(Exception):  # noqa: N818 - it is an answer, not a mistake
    """An engine can't do a work; the message is the reason that the table shows."""


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of mini-batch, the same for every engine.

    Attributes:
        kind: sample (ids only, one thread), biased (cached nodes weigh `bias`), load (sample and gather), train (a
            whole step).
        fanouts: In-neighbors per node, the seeds' hop first.
        batch_size: Seeds.
        model: sage, gcn, gat or gin; only train reads it.
        hidden: Width of the hidden layer; all heads together for gat.
        style: How the model is written where an engine offers a choice: library, or tuned by hand.
        bias: Weight of a cached in-neighbor.
        cache_share: Share of the nodes that are cached, hottest first.
    """

    kind: Kind
    fanouts: tuple[int, ...] = (25, 10)
    batch_size: int = 1024
    model: str = "sage"
    hidden: int = 256
    style: Literal["library", "tuned"] = "library"
    bias: float = 2.0
    cache_share: float = 0.1

    @property
    def one_thread(self) -> bool:
        """Whether it is measured on one thread."""
        return self.kind in ("sample", "biased")

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return asdict(self) | {"fanouts": list(self.fanouts)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the work of `to_dict`."""
        return cls(**{**fields, "fanouts": tuple(fields["fanouts"])})


@dataclass(frozen=True, slots=True)
class Batch:
    """One mini-batch that has been done.

    Attributes:
        index: Position in its epoch, from 0.
        seeds: Seeds; the last of an epoch may have fewer than the others.
        ms: Milliseconds from the request to the end.
        stages: Milliseconds of sample, gather and model if they run one after the other in this process.
        nodes: Distinct nodes.
        edges: Sampled edges.
        loss: Mean cross-entropy of the seeds, for train.
    """

    index: int
    seeds: int
    ms: float
    stages: Mapping[str, float] = field(default_factory=dict)
    nodes: int = 0
    edges: int = 0
    loss: float | None = None


class Library(Protocol):
    """An engine inside its worker."""

    name: str

    def versions(self) -> dict[str, str]:
        """Returns the versions of the packages that decide its speed."""

    def open(self, folder: str) -> dict[str, int]:
        """Loads the graph in `folder` into RAM and returns its nodes, edges and features."""

    def variants(self, work: Work) -> list[str]:
        """Returns its variants for `work`; the first one runs its stages one after the other in one process.

        Raises:
            Unavailable: There is none.
        """

    def batches(self, work: Work, variant: str) -> Iterator[Batch]:
        """Returns mini-batches without end, epoch after epoch; the first `next` builds what it needs."""

    def extra(self, question: str, argument: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer to a question that only some engines know.

        Raises:
            Unavailable: This one does not.
        """
