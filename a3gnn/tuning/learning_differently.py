"""The first of a list that learn differently from each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from a3gnn.config import TrainConfig

Item = TypeVar("Item")


def learning_differently(items: Iterable[Item], config: Callable[[Item], TrainConfig], count: int) -> list[Item]:
    """Returns the first `count` of `items` no two of which learn the same; where there are fewer, the next others too.

    Args:
        items: The most wanted first; not read further than needed.
        config: Gives an item's configuration.
        count: How many, at most.
    """
    seen, different, others = set(), list[Item](), list[Item]()
    for item in items:
        key = config(item).learning_key()
        (others if key in seen else different).append(item)
        seen.add(key)
        if len(different) == count:
            break
    return [*different, *others][:count]
