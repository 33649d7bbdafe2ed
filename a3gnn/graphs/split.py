"""Train, validation and test nodes: as masks or ids say, or split at random."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.checks import whole_number
from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.labels import is_labelled, target_of
from a3gnn.graphs.validate import check_kind
from a3gnn.option_names import option
from a3gnn.seeding import generator
from a3gnn.units import count

MASKS = ("train_mask", "val_mask", "test_mask")
#: Names under which ids of nodes stand for the mask of the same place in `MASKS`.
IDS = (("train_idx",), ("val_idx", "valid_idx"), ("test_idx",))
_SCHEME = "split:"
# Train, validation and test shares of a `Data` without masks. Guess: no source prescribes them.
_SHARES = (0.6, 0.2, 0.2)


@dataclass(frozen=True, slots=True)
class Split:
    """How labelled nodes are split at random.

    Attributes:
        shares: Of train, validation and test nodes, each > 0, at most 1 together; the rest is in no split.
        seed: Decides which nodes.

    Raises:
        UsageError: They are not such shares, or no such seed.
    """

    shares: tuple[float, float, float] = _SHARES
    seed: int = 0

    def __post_init__(self) -> None:
        valid = len(self.shares) == 3 and all(math.isfinite(share) and share > 0 for share in self.shares)
        if not valid or sum(self.shares) > 1 + 1e-9:
            raise UsageError(
                f"{option('split')} must be three shares > 0 of at most 1 together, of train, validation and test "
                f"nodes, got {','.join(f'{share:g}' for share in self.shares)}; such as 0.6,0.2,0.2"
            )
        object.__setattr__(self, "seed", whole_number(option("split_seed"), self.seed, 0))

    @classmethod
    def of(cls, shares: str | Sequence[float] | None, seed: int = 0) -> Self | None:
        """Returns the split of `shares`, three numbers or text such as 0.6,0.2,0.2; None where they are None.

        Raises:
            UsageError: They are something else.
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
        """Returns the split that the spec of a graph begins with, if it does, and the spec of the graph itself.

        Raises:
            UsageError: It begins with something like a split.
        """
        if not spec.startswith(_SCHEME):
            return None, spec
        shares, _, rest = spec.removeprefix(_SCHEME).partition(":")
        seed, colon, inner = rest.partition(":")
        if not colon or not seed.isdecimal() or inner.startswith(_SCHEME):
            raise UsageError(f"a split of a graph is split:TRAIN,VAL,TEST:SEED:GRAPH, got {spec!r}")
        return cls.of(shares, int(seed)), inner

    def spec(self, of: str) -> str:
        """Returns the spec of the graph whose spec is `of`, split in this way in place of its own."""
        return f"{_SCHEME}{','.join(map(repr, self.shares))}:{self.seed}:{self.in_spec(of)[1]}"

    def __str__(self) -> str:
        return f"{'/'.join(f'{100 * share:g}' for share in self.shares)} at random, seed {self.seed}"

    def masks(self, labels: NDArray[Any]) -> dict[str, NDArray[np.bool_]]:
        """Returns `MASKS`, bool of shape (num_nodes,), by name.

        Raises:
            GraphError: There are too few labelled nodes for one in each.
        """
        order = generator(self.seed, "split").permutation(np.flatnonzero(is_labelled(labels)))
        bounds = np.round(np.cumsum(self.shares) * len(order)).astype(int)
        parts = np.split(order, bounds)[: len(MASKS)]
        if not all(len(part) for part in parts):
            of = count(len(order), "labelled node")
            raise GraphError(
                f"a split must have a train, a validation and a test node, got {', '.join(str(len(p)) for p in parts)} "
                f"of {of}, which are split {self}; label more nodes, or give larger shares, such as "
                f"{option('split', '0.6,0.2,0.2')}"
            )
        return {name: ids_mask(ids, len(labels)) for name, ids in zip(MASKS, parts, strict=True)}

    def note(self, has: Sequence[str]) -> str:
        """Returns what people should know of a graph that has masks `has` and is split in this way."""
        instead = f", in place of its {', '.join(has)}" if has else ""
        return f"labelled nodes are split {self}{instead}"


def masks_of(
    get: Callable[[str], NDArray[Any] | None], labels: NDArray[Any], num_nodes: int, split: Split | None
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """Returns `MASKS` by name, unchecked, and notes on where they come from.

    Masks hold over ids. Of nodes that neither names, those that are labelled are split among what is missing.

    Args:
        get: Returns the array of a name, or None.
        labels: Of all nodes.
        num_nodes: How many there are.
        split: Holds over all that there is.

    Raises:
        GraphError: Labels are of no kind, ids are none of the graph, or too few labelled nodes are left for a mask
            that is missing.
    """
    check_kind(labels)
    found: dict[str, NDArray[Any]] = {}
    names, notes = [], []
    for mask, kinds in zip(MASKS, IDS, strict=True):
        given, ids = get(mask), next((kind for kind in kinds if get(kind) is not None), None)
        names += [name for name, there in ((mask, given is not None), (ids, ids is not None)) if there and name]
        if split is not None:
            continue
        listed = None if ids is None else ids_mask(_checked(ids, get(ids), mask, num_nodes), num_nodes)
        if given is not None and listed is not None and not np.array_equal(_first(given), listed):
            notes.append(f"{ids} and {mask} select different nodes; {mask} is used")
        elif given is None and listed is not None:
            notes.append(f"{ids} is used as {mask}")
        if given is not None or listed is not None:
            found[mask] = listed if given is None else given  # type: ignore[assignment]
    if split is not None:
        judging = [known for name in names if (known := _as_mask(name, get(name), num_nodes)) is not None]
        return {**split.masks(of_judged(labels, judging))}, (split.note(names),)
    if not found:
        return {**Split().masks(labels)}, (f"it had no masks; labelled nodes are split {Split()}",)
    splits = max(mask.shape[1] if mask.ndim == 2 else 1 for mask in found.values())
    if splits > 1:
        notes.append(f"it had {splits} splits; the first is used")
    found = {name: _first(mask) for name, mask in found.items()}
    if missing := [name for name in MASKS if name not in found]:
        found |= _filled(missing, found, labels)
        notes.append(
            f"it had no {' and no '.join(missing)}; labelled nodes in no other mask are taken for that at random, seed "
            f"0; {option('split', '0.6,0.2,0.2')} splits all labelled nodes"
        )
    return found, tuple(notes)


def _filled(missing: list[str], found: dict[str, NDArray[Any]], labels: NDArray[Any]) -> dict[str, NDArray[Any]]:
    free = is_labelled(of_judged(labels, list(found.values())))
    for mask in found.values():
        if mask.dtype == np.bool_ and mask.shape == free.shape:
            free = free & ~mask
    order = generator(0, "split").permutation(np.flatnonzero(free))
    if len(order) < len(missing):
        raise GraphError(
            f"a graph must have {', '.join(MASKS)}, this one lacks {', '.join(missing)}, and {len(order)} labelled "
            f"nodes are in no other mask; {option('split', '0.6,0.2,0.2')} splits all labelled nodes"
        )
    parts = np.array_split(order, len(missing))
    return {name: ids_mask(ids, len(labels)) for name, ids in zip(missing, parts, strict=True)}


def of_judged(labels: NDArray[Any], masks: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Returns `labels` without the classes that none of `masks` selects, such as one for unknown.

    All of them where there are no masks, or these select no node.
    """
    whole = [mask for mask in masks if mask.dtype == np.bool_ and mask.shape == labels.shape]
    if target_of(labels) != "classes" or not whole:
        return labels
    judged = np.unique(np.concatenate([labels[mask] for mask in whole]))
    return np.where(np.isin(labels, judged), labels.astype(np.int64), -1) if len(judged) else labels


def _as_mask(name: str, values: NDArray[Any] | None, num_nodes: int) -> NDArray[Any] | None:
    """Returns the mask, or that of ids, by which a split in its place sees what is judged; None where there is none."""
    if values is None or name in MASKS:
        return None if values is None else _first(values)
    try:
        return ids_mask(_checked(name, values, name, num_nodes), num_nodes)
    except GraphError:  # which the split replaces
        return None


def _first(mask: NDArray[Any]) -> NDArray[Any]:
    """Returns the first of several splits in columns, as PyG has them."""
    return mask[:, 0] if mask.ndim == 2 and mask.shape[1] else mask


def _checked(name: str, ids: NDArray[Any] | None, mask: str, num_nodes: int) -> NDArray[Any]:
    assert ids is not None
    flat = ids.reshape(-1) if ids.ndim == 2 and 1 in ids.shape else ids
    if flat.ndim != 1 or flat.dtype.kind not in "iu":
        raise GraphError(
            f"{name} must be node ids, integers of 1 dimension, got {ids.dtype} of shape {ids.shape}; give them as "
            f"int64, or name what has a bool per node {mask}"
        )
    if len(flat) and (int(flat.min()) < 0 or int(flat.max()) >= num_nodes):
        raise GraphError(
            f"{name} must be ids in [0, {num_nodes}), got {flat.min()} to {flat.max()}; number the nodes from 0"
        )
    return flat


def ids_mask(ids: NDArray[Any], num_nodes: int) -> NDArray[np.bool_]:
    """Returns a bool per node, which is True for `ids`."""
    mask = np.zeros(num_nodes, dtype=np.bool_)
    mask[ids] = True
    return mask
