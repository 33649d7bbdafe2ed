"""`prefetched`: mini-batches of which each stage is ahead of the next by a depth of its own."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from a3gnn.threads import pool
from a3gnn.threads.staged_map import staged_map


def prefetched(
    items: Iterable[Any], stages: Sequence[Callable[[Any], Any]], depths: Sequence[int], threads: int
) -> Generator[Any, None, None]:
    """Yields what `stages` make of each item one after the other, in order (HyScale-GNN, section IV-B and Fig. 7).

    A stage that may be ahead of the next one has a thread of its own, on which it begins an item once the next stage
    has begun the one that is its depth before; the caller, whose the last stage is, begins one when it comes. With
    depth 0 both work on one item, one after the other: on one thread, or on the caller's, when the item is asked for.

    Args:
        items: What is to be made.
        stages: Those before the caller's.
        depths: For each of them, by how many items it may be ahead of the next.
        threads: Those that a stage with a thread of its own computes on, that one included.
    """
    groups: list[list[Callable[[Any], Any]]] = [[]]
    for stage, depth in zip(stages, depths, strict=True):
        groups[-1].append(stage)
        if depth:
            groups.append([])
    *ahead, last = groups
    if not ahead:
        yield from (_in_turn(last, item) for item in items)
        return

    def on_thread(group: Sequence[Callable[[Any], Any]], item: Any) -> Any:
        with pool.limited(threads):
            return _in_turn(group, item)

    own = [partial(on_thread, group) for group in ahead]
    with closing(staged_map(items, own, [depth for depth in depths if depth])) as results:
        for result in results:
            yield _in_turn(last, result)


def _in_turn(stages: Sequence[Callable[[Any], Any]], item: Any) -> Any:
    for stage in stages:
        item = stage(item)
    return item
