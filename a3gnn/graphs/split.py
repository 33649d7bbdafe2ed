"""Train, validation and test nodes: from masks or ids, or split at random."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.checks import whole_number
from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.labels import check_kind, is_labeled, judged_nodes
from a3gnn.option_names import option
from a3gnn.seeding import generator
from a3gnn.storage.npy import slices
from a3gnn.units import count

MASKS = ("train_mask", "val_mask", "test_mask")
#: Names of id arrays that replace the mask at the same place in `MASKS`.
IDS = (("train_idx",), ("val_idx", "valid_idx"), ("test_idx",))
_KINDS_OF_SPLITS = ("mask", "idx", "ids", "index", "indices", "nodes")
_SPELLINGS = (("train",), ("val", "valid", "validation"), ("test",))
#: Further names, of masks or ids, that other programs give to what belongs at the same place in `MASKS`. `[...]` is an
#: entry of a mapping, such as OGB's.
_ELSEWHERE = tuple(
    tuple(
        name
        for one in spellings
        for name in (*(f"{one}_{of}" for of in _KINDS_OF_SPLITS), f"idx_{one}", one, f"split_idx[{one}]")
        if name not in (mask, *ids)
    )
    for mask, ids, spellings in zip(MASKS, IDS, _SPELLINGS, strict=True)
)
#: All names by which a split is found.
SPLIT_NAMES = (*MASKS, *chain(*IDS, *_ELSEWHERE))
_LIKE_A_SPLIT = re.compile(r"(^|_)(splits?|folds?|train|val|valid|validation|test)(_|$)", re.IGNORECASE)
_SCHEME = "split:"
# Train, validation and test shares of a `Data` without masks. No source prescribes them.
_SHARES = (0.6, 0.2, 0.2)


@dataclass(frozen=True, slots=True)
class Split:
    """A random split of the labeled nodes.

    Attributes:
        shares: Train, validation and test shares, each > 0, at most 1 together; the remaining nodes are in no set.
        seed: Seed of the random choice, >= 0.

    Raises:
        UsageError: The shares or the seed are not valid.
    """

    shares: tuple[float, float, float] = _SHARES
    seed: int = 0

    def __post_init__(self) -> None:
        valid = len(self.shares) == 3 and all(math.isfinite(share) and share > 0 for share in self.shares)
        if not valid or sum(self.shares) > 1 + 1e-9:
            raise UsageError(
                f"{option('split')} must be three shares > 0 of train, validation and test nodes, at most 1 "
                f"together, got {','.join(f'{share:g}' for share in self.shares)}; such as 0.6,0.2,0.2"
            )
        object.__setattr__(self, "seed", whole_number(option("split_seed"), self.seed, 0))

    @classmethod
    def of(cls, shares: str | Sequence[float] | None, seed: int = 0) -> Self | None:
        """Returns the split of `shares`, three numbers or text such as 0.6,0.2,0.2; None if `shares` is None.

        Raises:
            UsageError: `shares` is not three valid shares, or `seed` is not valid.
        """
        if shares is None:
            return None
        try:
            numbers = tuple(float(share) for share in (shares.split(",") if isinstance(shares, str) else shares))
        except (TypeError, ValueError):
            raise UsageError(f"{option('split')} must be three numbers, such as 0.6,0.2,0.2, got {shares!r}") from None
        return cls(numbers, seed)  # type: ignore[arg-type]  # checked there

    @classmethod
    def in_spec(cls, spec: str) -> tuple[Self | None, str]:
        """Returns the split that `spec` begins with, or None, and the spec of the graph itself.

        Raises:
            UsageError: `spec` begins with `split:`, but the split is not valid.
        """
        if not spec.startswith(_SCHEME):
            return None, spec
        shares, _, rest = spec.removeprefix(_SCHEME).partition(":")
        seed, colon, inner = rest.partition(":")
        if not colon or not seed.isdecimal() or inner.startswith(_SCHEME):
            raise UsageError(f"a split of a graph must have the form split:TRAIN,VAL,TEST:SEED:GRAPH, got {spec!r}")
        return cls.of(shares, int(seed)), inner

    def spec(self, of: str) -> str:
        """Returns the spec of the graph `of` with this split in place of its own."""
        return f"{_SCHEME}{','.join(map(repr, self.shares))}:{self.seed}:{self.in_spec(of)[1]}"

    def __str__(self) -> str:
        return f"{'/'.join(f'{100 * share:g}' for share in self.shares)} at random, seed {self.seed}"

    def masks(self, labeled: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
        """Returns a mask for each name of `MASKS`, bool, shape (num_nodes,).

        Args:
            labeled: Which nodes are split, bool, shape (num_nodes,).

        Raises:
            GraphError: There are too few labeled nodes for one in each mask.
        """
        order = _shuffled(labeled, self.seed)
        bounds = np.round(np.cumsum(self.shares) * len(order)).astype(int)
        parts = np.split(order, bounds)[: len(MASKS)]
        if not all(len(part) for part in parts):
            of = count(len(order), "labeled node")
            raise GraphError(
                "a split must have a train, a validation and a test node, got "
                f"{', '.join(str(len(p)) for p in parts)} of {of} split {self}. Label more nodes, or give larger "
                f"shares, such as {option('split', '0.6,0.2,0.2')}"
            )
        return {name: ids_mask(ids, len(labeled)) for name, ids in zip(MASKS, parts, strict=True)}

    def note(self, has: Sequence[str]) -> str:
        """Returns the note for a graph that has masks `has` and is split by these shares."""
        instead = f"; this replaces its {', '.join(has)}" if has else ""
        return f"labeled nodes are split {self}{instead}"


def masks_of(
    get: Callable[[str], NDArray[Any] | None], labels: NDArray[Any], num_nodes: int, split: Split | None
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """Returns masks by name of `MASKS`, unchecked, and notes on their origin.

    A mask has priority over ids, and both over the names of other programs. A missing mask is drawn from the labeled
    nodes that are in no other mask.

    Args:
        get: Returns the array of a name, or None.
        labels: Of all nodes.
        num_nodes: Number of nodes.
        split: Replaces all masks and ids; None uses them.

    Raises:
        GraphError: Labels are of no known kind, ids are out of range, or too few labeled nodes are left for a missing
            mask.
    """
    check_kind(labels)
    found: dict[str, NDArray[Any]] = {}
    names: list[str] = []
    notes: list[str] = []
    for mask, kinds, elsewhere in zip(MASKS, IDS, _ELSEWHERE, strict=True):
        given, ids = get(mask), next((kind for kind in kinds if get(kind) is not None), None)
        if given is None and ids is None:
            ids = next((name for name in elsewhere if _selected(get(name), num_nodes) is not None), None)
            notes += unused_splits(name for name in elsewhere if ids is None and get(name) is not None)
        names += [name for name, there in ((mask, given is not None), (ids, ids is not None)) if there and name]
        if split is not None:
            continue
        listed = None if ids is None else _selected(get(ids), num_nodes)
        if ids in kinds:
            listed = ids_mask(_checked(ids, get(ids), mask, num_nodes), num_nodes)
        if given is not None and listed is not None and not np.array_equal(_first(given), listed):
            notes.append(f"{ids} and {mask} select different nodes; {mask} is used")
        elif given is None and listed is not None:
            notes.append(f"{ids} is used as {mask}")
        if given is not None or listed is not None:
            found[mask] = listed if given is None else given  # type: ignore[assignment]
    if split is not None:
        judging = [known for name in names if (known := _as_mask(name, get(name), num_nodes)) is not None]
        return {**split.masks(judged_nodes(labels, judging))}, (split.note(names), *notes)
    if not found:
        return {**Split().masks(is_labeled(labels))}, (f"it had no masks; labeled nodes are split {Split()}", *notes)
    splits = max(mask.shape[1] if mask.ndim == 2 else 1 for mask in found.values())
    if splits > 1:
        notes.append(f"it had {splits} splits; the first is used")
    found = {name: _first(mask) for name, mask in found.items()}
    if missing := [name for name in MASKS if name not in found]:
        found |= _filled(missing, found, labels)
        notes.append(
            f"it had no {' and no '.join(missing)}; nodes are drawn at random (seed 0) from labeled nodes in no "
            f"other mask; {option('split', '0.6,0.2,0.2')} splits all labeled nodes"
        )
    return found, tuple(notes)


def _filled(missing: list[str], found: dict[str, NDArray[Any]], labels: NDArray[Any]) -> dict[str, NDArray[Any]]:
    free = judged_nodes(labels, list(found.values()))
    for mask in found.values():
        if mask.dtype == np.bool_ and mask.shape == free.shape:
            free &= ~mask
    order = _shuffled(free, 0)
    if len(order) < len(missing):
        raise GraphError(
            f"a graph must have {', '.join(MASKS)}, but this one lacks {', '.join(missing)}, and "
            f"{count(len(order), 'labeled node')} {'is' if len(order) == 1 else 'are'} in no other mask; "
            f"{option('split', '0.6,0.2,0.2')} splits all labeled nodes"
        )
    parts = np.array_split(order, len(missing))
    return {name: ids_mask(ids, len(labels)) for name, ids in zip(missing, parts, strict=True)}


def _shuffled(selected: NDArray[np.bool_], seed: int) -> NDArray[np.int32]:
    """Returns the nodes that a mask selects in random order, int32; as many draws as of int64 give the same order."""
    order = mask_ids(selected)
    generator(seed, "split").shuffle(order)
    return order


def _as_mask(name: str, values: NDArray[Any] | None, num_nodes: int) -> NDArray[Any] | None:
    """Returns a mask, or ids as a mask; None if missing or invalid. It shows a split which classes are judged."""
    if values is None or name in MASKS:
        return None if values is None else _first(values)
    return _selected(values, num_nodes)  # invalid ids are replaced by the split


def _selected(values: NDArray[Any] | None, num_nodes: int) -> NDArray[np.bool_] | None:
    """Returns the nodes that a mask (bool, or 0 and 1 for all nodes) or ids select, bool; None if it is neither."""
    if values is None:
        return None
    first = _first(values)
    if first.shape == (num_nodes,) and (first.dtype == np.bool_ or _is_zero_and_one(first)):
        return first.astype(np.bool_)
    if first.ndim != 1 or first.dtype.kind not in "iu" or not len(first) or len(first) > num_nodes:
        return None
    mask = ids_mask(first, num_nodes) if first.min() >= 0 and first.max() < num_nodes else None
    return mask if mask is not None and np.count_nonzero(mask) == len(first) else None


def _is_zero_and_one(values: NDArray[Any]) -> bool:
    """Returns whether `values` are integers, and both 0 and 1 occur and nothing else."""
    return values.dtype.kind in "iu" and len(values) > 1 and (values.min(), values.max()) == (0, 1)


def unused_splits(names: Iterable[str]) -> tuple[str, ...]:
    """Returns a note on those `names` of unused arrays that seem to contain a split; nothing if there are none."""
    like = [name for name in names if _LIKE_A_SPLIT.search(name)]
    known = f"masks are called {', '.join(MASKS)} (a bool per node), ids {', '.join(ids[0] for ids in IDS)}"
    return (f"{', '.join(like)} may be a split, but can't be used as one; {known}",) if like else ()


def _first(mask: NDArray[Any]) -> NDArray[Any]:
    """Returns the first split of a mask with a column per split, as in PyG."""
    return mask[:, 0] if mask.ndim == 2 and mask.shape[1] else mask


def _checked(name: str, ids: NDArray[Any] | None, mask: str, num_nodes: int) -> NDArray[Any]:
    assert ids is not None
    flat = ids.reshape(-1) if ids.ndim == 2 and 1 in ids.shape else ids
    if flat.ndim != 1 or flat.dtype.kind not in "iu":
        raise GraphError(
            f"{name} must be node ids, integers of 1 dimension, got {ids.dtype} of shape {ids.shape}. Give them as "
            f"int64, or rename an array of one bool per node to {mask}"
        )
    if len(flat) and (int(flat.min()) < 0 or int(flat.max()) >= num_nodes):
        raise GraphError(
            f"{name} must be ids in [0, {num_nodes}), got {flat.min()} to {flat.max()}; number the nodes from 0"
        )
    return flat


def mask_ids(mask: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Returns the nodes that a mask selects, ascending, int32; it takes no int64 of all of them."""
    ids, done = np.empty(np.count_nonzero(mask), dtype=np.int32), 0
    for some in slices(len(mask)):
        found = np.flatnonzero(mask[some])
        ids[done : done + len(found)] = found + some.start
        done += len(found)
    return ids


def ids_mask(ids: NDArray[Any], num_nodes: int) -> NDArray[np.bool_]:
    """Returns a bool per node, True for `ids`."""
    mask = np.zeros(num_nodes, dtype=np.bool_)
    mask[ids] = True
    return mask
