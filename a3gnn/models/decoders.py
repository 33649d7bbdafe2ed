"""Decoders: scores of pairs of nodes from the rows of their ends, pair by pair or for all candidates of queries.

A pair has a head, a tail and a relation. A query is one end with the relation; its candidates are the nodes that can be
the other end.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from a3gnn.task import DecoderName

#: Most entries of a temporary of `MLP.block`: 16 MiB. Guess.
_MOST_ENTRIES = 1 << 22
#: Score of two equal rows in `RotatE` (Sun et al. 2019, table 13, WN18RR).
_MARGIN = 6.0


def taken(rows: Tensor, places: Tensor) -> Tensor:
    """Returns `rows[places]`, whose gradients are summed in a fixed order; indexing sums them in any order."""
    return functional.embedding(places, rows)


class Decoder(nn.Module):
    """Compares the rows of heads, changed by their relation, with the rows of tails by the dot product.

    This class changes nothing: the score is the dot product of both rows.
    """

    def turned(self, rows: Tensor, relations: Tensor, *, are_heads: bool) -> Tensor:
        """Returns the rows of queries as they are compared with candidates.

        Args:
            rows: One per query, float32, shape (num_queries, width).
            relations: The relation of each query, int64, shape (num_queries,).
            are_heads: Whether queries are heads, so candidates are tails.
        """
        return rows

    def pairs(self, heads: Tensor, tails: Tensor, relations: Tensor) -> Tensor:
        """Returns the score of each pair, float32, shape (num_pairs,); `heads` and `tails` have a row per pair."""
        return (self.turned(heads, relations, are_heads=True) * tails).sum(dim=1)

    def block(self, queries: Tensor, candidates: Tensor, relations: Tensor, *, are_heads: bool = True) -> Tensor:
        """Returns the score of each query with each candidate, float32, shape (num_queries, num_candidates).

        Args:
            queries: As `rows` in `turned`.
            candidates: Rows of the other ends, float32, shape (num_candidates, width).
            relations: As in `turned`.
            are_heads: As in `turned`.
        """
        return self.turned(queries, relations, are_heads=are_heads) @ candidates.t()


class DistMult(Decoder):
    """Multiplies heads by a learned row of their relation (Yang et al. 2015, section 3).

    Args:
        width: Columns of rows.
    """

    def __init__(self, width: int, num_relations: int) -> None:
        super().__init__()
        self.relation = nn.Parameter(torch.ones(num_relations, width) + torch.randn(num_relations, width) / 10)

    def turned(self, rows: Tensor, relations: Tensor, *, are_heads: bool) -> Tensor:
        """Returns the products; both directions have the same."""
        return rows * taken(self.relation, relations)


class RotatE(Decoder):
    """The margin minus the distance of tails to heads that are rotated by their relation (Sun et al. 2019, section 3).

    Rows are complex: the first half of the columns are real parts, the second imaginary ones. The distance is
    Euclidean over all columns, as in PyG and PyKEEN, so a block needs one matrix product.

    Args:
        width: Columns of rows, even.
    """

    def __init__(self, width: int, num_relations: int) -> None:
        super().__init__()
        self.angle = nn.Parameter(torch.empty(num_relations, width // 2).uniform_(-math.pi, math.pi))

    def turned(self, rows: Tensor, relations: Tensor, *, are_heads: bool) -> Tensor:
        """Returns the rotated rows; tails are rotated back, which leaves distances unchanged."""
        angle = taken(self.angle, relations)
        real, imaginary = rows.chunk(2, dim=1)
        cosine, sine = angle.cos(), angle.sin() if are_heads else -angle.sin()
        return torch.cat([real * cosine - imaginary * sine, real * sine + imaginary * cosine], dim=1)

    def pairs(self, heads: Tensor, tails: Tensor, relations: Tensor) -> Tensor:
        """Returns the score of each pair."""
        apart = self.turned(heads, relations, are_heads=True) - tails
        distance: Tensor = torch.linalg.vector_norm(apart, dim=1)
        return _MARGIN - distance

    def block(self, queries: Tensor, candidates: Tensor, relations: Tensor, *, are_heads: bool = True) -> Tensor:
        """Returns the score of each query with each candidate."""
        turned = self.turned(queries, relations, are_heads=are_heads)
        lengths = torch.linalg.vector_norm(candidates, dim=1).square()
        squares = torch.addmm(lengths, turned, candidates.t(), alpha=-2) + (turned**2).sum(dim=1)[:, None]
        squares = squares.clamp(min=1e-12)  # rounding may leave less than 0, where sqrt has no gradient
        return _MARGIN - squares.sqrt()


class MLP(Decoder):
    """A multilayer perceptron with one hidden layer on the pair's rows, and the bias of its relation.

    Args:
        width: Columns of rows, and of the hidden layer.
        num_relations: Relations.
        outputs: Columns of `outputs`.
    """

    def __init__(self, width: int, num_relations: int, outputs: int = 1) -> None:
        super().__init__()
        self.head, self.tail = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.relation = nn.Parameter(torch.zeros(num_relations, width))
        self.out = nn.Linear(width, outputs)

    def pairs(self, heads: Tensor, tails: Tensor, relations: Tensor) -> Tensor:
        """Returns the score of each pair."""
        return self.outputs(heads, tails, relations)[:, 0]

    def outputs(self, heads: Tensor, tails: Tensor, relations: Tensor) -> Tensor:
        """Returns the outputs for each pair, float32, shape (num_pairs, outputs); arguments as in `pairs`."""
        hidden = torch.relu(self.head(heads) + self.tail(tails) + taken(self.relation, relations))
        found: Tensor = self.out(hidden)
        return found

    def block(self, queries: Tensor, candidates: Tensor, relations: Tensor, *, are_heads: bool = True) -> Tensor:
        """Returns the score of each query with each candidate; its temporaries have at most 16 MiB, or a query's."""
        own, other = (self.head, self.tail) if are_heads else (self.tail, self.head)
        rows, columns = own(queries) + taken(self.relation, relations), other(candidates)
        step = max(1, _MOST_ENTRIES // max(1, columns.numel()))
        starts = range(0, len(rows), step)
        pieces = [self.out(torch.relu(rows[first : first + step, None] + columns))[:, :, 0] for first in starts]
        return torch.cat(pieces)


def make_decoder(name: DecoderName, width: int, num_relations: int) -> Decoder:
    """Returns a new decoder; its weights depend on torch's generator.

    Args:
        name: dot, mlp, distmult or rotate.
        width: Columns of nodes' rows; even for rotate.
        num_relations: Relations of the pairs.
    """
    if name == "dot":
        return Decoder()
    kinds: dict[str, Callable[[int, int], Decoder]] = {"mlp": MLP, "distmult": DistMult, "rotate": RotatE}
    return kinds[name](width, num_relations)
