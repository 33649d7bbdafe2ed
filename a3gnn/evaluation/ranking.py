"""Ranks of true pairs among all candidates, exact and in bounded memory: scores come in blocks, only ranks are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.checks import size_or_none
from a3gnn.errors import UsageError
from a3gnn.evaluation.ranking_kernels import Lists, add_competitors, pick
from a3gnn.storage.compiled import readonly

#: Returns the scores of queries with candidates, both as int64 ids: floats of shape (num_queries, num_candidates).
Score: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, eq=False)
class Ranks:
    """Ranks of true pairs, each among the candidates of its query; 1 is the best.

    A pair that shares its score with n others has the mean of the ranks that they take, n / 2 above the first of them
    (the realistic rank; Berrendorf et al. 2020, section 3).

    Attributes:
        filtered: Among all candidates but the query's other true and known ones, float64, shape (num_pairs,). Knowledge
            graphs are judged by these (Bordes et al. 2013).
        among_true: Among all candidates but the known ones, float64, shape (num_pairs,). Recommendations are judged by
            these, because the true ones of a query compete for its k places.
        queries: The query of each pair, int64, shape (num_pairs,).
        candidates: The candidate of each pair, int64, shape (num_pairs,). Pairs that repeat count once in the means
            over queries, and each time in the means over pairs.
    """

    filtered: NDArray[np.float64]
    among_true: NDArray[np.float64]
    queries: NDArray[np.int64]
    candidates: NDArray[np.int64]

    @property
    def mrr(self) -> float:
        """The mean reciprocal filtered rank."""
        return float((1 / self.filtered).mean())

    def hits(self, k: int) -> float:
        """Returns the share of pairs with a filtered rank of at most `k`."""
        return float((self.filtered <= k).mean())

    def recall(self, k: int) -> float:
        """Returns the share of a query's true candidates among its best `k`, mean over queries."""
        ranks, _, counts = self._by_query()
        return float((_sums(ranks <= k, counts) / counts).mean())

    def ndcg(self, k: int) -> float:
        """Returns the normalized discounted cumulative gain of the best `k`, mean over queries.

        A true candidate at rank r gains 1 / log2(1 + r) (Jaervelin and Kekaelaeinen 2002); the ideal has all true ones
        first.
        """
        ranks, _, counts = self._by_query()
        gains = np.where(ranks <= k, 1 / np.log2(1 + ranks), 0.0)
        ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, k + 2)))])
        return float((_sums(gains, counts) / ideal[np.minimum(counts, k)]).mean())

    def mean_average_precision(self, k: int) -> float:
        """Returns the mean over queries of the mean precision at each true candidate among the best `k`.

        It is divided by the number of true candidates, or by `k` if that is less.
        """
        ranks, before, counts = self._by_query()
        precision = np.where(ranks <= k, before / ranks, 0.0)
        return float((_sums(precision, counts) / np.minimum(counts, k)).mean())

    def metric(self, name: str) -> float:
        """Returns the metric of a name in `RANK_METRICS`, such as mrr or recall@20."""
        if name == "mrr":
            return self.mrr
        kind, _, k = name.partition("@")
        of = {"hits": self.hits, "recall": self.recall, "ndcg": self.ndcg, "map": self.mean_average_precision}
        return of[kind](int(k))

    def _by_query(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ranks among the true ones of distinct pairs, query by query, each query's in ascending order.

        Then the place of each in its query, from 1, and the number of pairs of each query.
        """
        firsts = np.unique(np.stack([self.queries, self.candidates]), axis=1, return_index=True)[1]
        order = firsts[np.lexsort((self.among_true[firsts], self.queries[firsts]))]
        counts = np.unique(self.queries[order], return_counts=True)[1]
        places = np.arange(1, len(order) + 1) - np.repeat(counts.cumsum() - counts, counts)
        return self.among_true[order], places, counts


def _sums(values: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the sum of the `values` of each query, which has `counts` of them."""
    return np.add.reduceat(values, counts.cumsum() - counts, dtype=np.float64)


def rank_pairs(
    score: Score,
    pairs: Any,
    num_candidates: int,
    known: Sequence[Any] = (),
    *,
    block: str | int = "64MiB",
) -> Ranks:
    """Returns the rank of each pair's candidate among all candidates for its query.

    Scores are computed block by block of queries, and of candidates where one query's do not fit. So memory is bounded,
    and ranks do not depend on the size of blocks beyond the rounding of `score` itself.

    Examples:
        >>> h, z = torch.randn(100, 16), torch.randn(5000, 16)  # embeddings of users and items
        >>> def score(users, items): return h[users] @ z[items].T
        >>> test, train = torch.randint(100, (2, 300)), torch.randint(100, (2, 900))
        >>> ranks = rank_pairs(score, test, 5000, [train])
        >>> 0 < ranks.mrr <= 1
        True

    Args:
        score: Higher is better. It is called within `torch.no_grad`; its result is on the host or a device.
        pairs: Queries and their true candidates, integers, shape (2, num_pairs), such as the pairs of the test split.
        num_candidates: Candidates, of which each is scored for each query.
        known: More true pairs, of that shape each, such as the pairs of train and validation splits: they are no
            competitors.
        block: Most memory of a block's scores, bytes or text such as "256MiB".

    Raises:
        UsageError: An argument is out of range; or a score is NaN, or has another shape than asked.
    """
    true = checked_pairs("pairs", pairs, num_candidates)
    others = [checked_pairs(f"known[{place}]", one, num_candidates) for place, one in enumerate(known)]
    if not true.shape[1]:
        raise UsageError("pairs must have at least one pair, got none; give the pairs to rank")
    nbytes = size_or_none("block", block)
    if not nbytes:
        raise UsageError(f"block must be a size such as 64MiB, got {block!r}; it bounds the memory of scores")
    order = np.argsort(true[0], kind="stable")
    queries, firsts = np.unique(true[0][order], return_index=True)
    excluded = _Lists.of([true, *others], queries, num_candidates), _Lists.of(others, queries, num_candidates)
    result = np.empty((2, true.shape[1]))
    wide = max(1, min(num_candidates, nbytes // 4))
    rows = max(1, nbytes // (4 * wide))
    ends = np.append(firsts, len(order))
    for low in range(0, len(queries), rows):
        high = min(low + rows, len(queries))
        members = order[ends[low] : ends[high]]
        owners = np.repeat(np.arange(high - low), np.diff(ends[low : high + 1]))
        blocks = _Blocks(score, queries[low:high], num_candidates, wide)
        first, second = ((one.indptr[low : high + 1], one.ids) for one in excluded)
        result[:, members] = _ranks_of(blocks, owners, true[1][members], (first, second))
        del blocks  # two blocks at once would be twice the memory
    return Ranks(result[0], result[1], *true)


def _ranks_of(
    blocks: _Blocks, owners: NDArray[np.int64], targets: NDArray[np.int64], excluded: tuple[Lists, Lists]
) -> NDArray[np.float64]:
    """Returns both ranks of each pair of some queries, shape (2, num_pairs)."""
    own, ranks = np.empty(len(owners)), np.ones((2, len(owners)))
    for first, scores in blocks:
        pick(scores, first, owners, targets, own)
    for first, scores in blocks:
        add_competitors(scores, first, owners, targets, own, excluded, ranks)
    return ranks


class _Blocks:
    """The scores of some queries with all candidates, block by block; a single block is computed once."""

    def __init__(self, score: Score, queries: NDArray[np.int64], num_candidates: int, wide: int) -> None:
        self._score, self._queries, self._all, self._wide = score, torch.from_numpy(queries), num_candidates, wide
        self._only: NDArray[Any] | None = None

    def __iter__(self) -> Iterator[tuple[int, NDArray[Any]]]:
        if self._only is not None:
            yield 0, self._only
            return
        for first in range(0, self._all, self._wide):
            scores = self._scores(first, min(first + self._wide, self._all))
            if self._wide == self._all:
                self._only = scores
            yield first, scores

    def _scores(self, first: int, last: int) -> NDArray[Any]:
        with torch.no_grad():
            found = torch.as_tensor(self._score(self._queries, torch.arange(first, last)))
        if found.shape != (len(self._queries), last - first):
            raise UsageError(
                f"score must return shape {(len(self._queries), last - first)}, one row per query and one column per "
                f"candidate, got {tuple(found.shape)}"
            )
        found = found.float() if found.dtype.itemsize <= 2 else found.detach()
        scores: NDArray[Any] = found.cpu().contiguous().numpy()
        if np.isnan(scores).any():
            raise UsageError("score must return numbers, got NaN; the model may have diverged")
        return readonly(scores)


@dataclass(frozen=True, eq=False)
class _Lists:
    """Sorted distinct candidates of each query: indptr int64, shape (num_queries + 1,), and ids int64."""

    indptr: NDArray[np.int64]
    ids: NDArray[np.int64]

    @classmethod
    def of(cls, pairs: Sequence[NDArray[np.int64]], queries: NDArray[np.int64], num_candidates: int) -> _Lists:
        """Returns the candidates in `pairs` of each of `queries`, which ascend."""
        places = [np.minimum(np.searchsorted(queries, one[0]), len(queries) - 1) for one in pairs]
        kept = [queries[place] == one[0] for place, one in zip(places, pairs, strict=True)]
        none = np.empty(0, dtype=np.int64)
        keys = [
            place[keep] * num_candidates + one[1][keep] for place, keep, one in zip(places, kept, pairs, strict=True)
        ]
        distinct = np.unique(np.concatenate([none, *keys]))
        indptr = np.searchsorted(distinct, np.arange(len(queries) + 1) * num_candidates)
        return cls(readonly(indptr), readonly(distinct % num_candidates))


def checked_pairs(name: str, pairs: Any, num_candidates: int) -> NDArray[np.int64]:
    """Returns `pairs`, the argument `name`, as queries and candidates on the host, int64, shape (2, num_pairs).

    Raises:
        UsageError: They are something else, or an id is out of range.
    """
    found = pairs.detach().cpu().numpy() if isinstance(pairs, torch.Tensor) else np.asarray(pairs)
    if found.ndim != 2 or len(found) != 2 or not np.issubdtype(found.dtype, np.integer):
        raise UsageError(f"{name} must be integers of shape (2, num_pairs), got {found.dtype} of shape {found.shape}")
    if found.size and (found.min() < 0 or found[1].max() >= num_candidates):
        raise UsageError(
            f"{name} must be queries >= 0 and candidates in [0, {num_candidates:,}), got ids from {found.min()} to "
            f"{found[1].max()}"
        )
    return np.ascontiguousarray(found, dtype=np.int64)
