"""`OwnModel`: what is known of a model that a factory of the user's makes, and what of it keys depend on."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from a3gnn._fields import from_fields
from a3gnn.domains import OneOf

#: What `forward` takes beside x: PyG's edge_index, or every layer's adjacency.
Takes = Literal["edge_index", "adjs"]
#: What the input layer makes of in-neighbours' rows before anything that is learnt, where a model declares it.
Aggregates = Literal["mean"]
#: Which accuracies are computed from a fixed sample of in-neighbours, not from all.
Sampled = Literal["none", "validation", "test", "all"]

_FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def names_factory(model: object) -> bool:
    """Returns whether `model` has the form package.module:function, which names a factory and no built-in model."""
    return isinstance(model, str) and _FACTORY.fullmatch(model) is not None


@dataclass(frozen=True, slots=True)
class OwnCost:
    """What a forward pass costs, as its operations were counted.

    Nodes and edges are those that layers are computed on: of a model that takes adjs, summed over its layers, with as
    many destinations as sources; of one that takes edge_index, those of the whole mini-batch, once.

    Attributes:
        parameters: Number of weights.
        node_flops: Multiplications and additions of dense products, per node.
        edge_flops: The same per edge.
        node_bytes: Bytes that operations write, per node.
        edge_bytes: The same per edge.
        edge_reads: Bytes that sparse products read per edge: they are moved, and take no memory.
    """

    parameters: int
    node_flops: float
    edge_flops: float
    node_bytes: float
    edge_bytes: float
    edge_reads: float

    def bytes(self, nodes: float, edges: float) -> float:
        """Returns the bytes that a forward pass over so many nodes and edges writes: no more are alive at once."""
        return self.node_bytes * nodes + self.edge_bytes * edges

    def moved(self, nodes: float, edges: float) -> float:
        """Returns the bytes that it writes, and that sparse products read: what it costs."""
        return self.bytes(nodes, edges) + self.edge_reads * edges


@dataclass(frozen=True, slots=True)
class OwnModel:
    """What a factory makes on one graph. Tasks carry it, so that keys change where any of it does.

    Attributes:
        sources: Hash of the user's files that the factory's module imports, and of the versions of the packages that
            these import.
        shapes: Hash of the names, shapes and types of the parameters and buffers.
        takes: What `forward` takes beside x.
        aggregates: What the model declares of its input layer; None where it declares nothing.
        cost: What a forward pass costs.
        repeats: Whether mini-batches that were trained twice gave the same bits, as far as that was tried: if not,
            configurations of one learning key do not share curves.
        sampled: Which accuracies of trials are computed from a fixed sample of in-neighbours, not from all.
        pass_bytes: What a pass of evaluation takes in trials, at most; 0 where no trials were planned.

    Raises:
        ConfigError: A name is not among its choices.
    """

    sources: str
    shapes: str
    takes: Takes
    aggregates: Aggregates | None
    cost: OwnCost
    repeats: bool = True
    sampled: Sampled = "none"
    pass_bytes: int = 0

    def __post_init__(self) -> None:
        OneOf(get_args(Takes)).check("takes", self.takes)
        OneOf(get_args(Sampled)).check("sampled", self.sampled)
        if self.aggregates is not None:
            OneOf(get_args(Aggregates)).check("aggregates", self.aggregates)

    @property
    def reads_a_table(self) -> bool:
        """Whether its input layer can read means of whole in-neighbourhoods: a layer of its own, declared as a mean."""
        return self.aggregates == "mean" and self.takes == "adjs"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the model of `to_dict`."""
        return from_fields(cls, dict(fields) | {"cost": from_fields(OwnCost, fields["cost"])})
