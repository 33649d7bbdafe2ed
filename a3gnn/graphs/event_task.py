"""`event_links`: links of relations with times, split in the order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.edges import known_times
from a3gnn.graphs.link_split import mirrors_of
from a3gnn.graphs.pyg import array_of
from a3gnn.option_names import option

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

    from a3gnn.graphs.split import Split

_Key = tuple[str, str, str]
#: Split without one of its own. Poursafaei et al., 2022, section 6 (EdgeBank), and most papers since.
_SHARES = (0.7, 0.15, 0.15)
_NAMES = ("train", "val", "test")


class EventLinks(NamedTuple):
    """Links with times."""

    order: NDArray[np.int64]  # their order of time, int64, shape (num_pairs,)
    part: NDArray[np.int64]  # the part of each, in that order: 0 for train, 1 for validation, 2 for test
    times: NDArray[Any]  # the time of each, in that order


def edge_times_of(store: Any) -> Any:
    """Returns the tensor of the times of a relation's edges; None if it has none."""
    given = store.get("time", store.get("edge_time"))
    return given if hasattr(given, "detach") else None


def edge_times(store: Any, called: str) -> NDArray[Any] | None:
    """Returns the times of a relation's edges, int64 or float64; None if it has none.

    Raises:
        GraphError: They are not one number per edge, or one is missing.
    """
    given = edge_times_of(store)
    if given is None:
        return None
    times: NDArray[Any] = array_of("time", given.detach().cpu())
    times = times.reshape(-1) if times.ndim == 2 and times.shape[1] == 1 else times
    checked = known_times(f"times of {called}", times, store.edge_index.shape[1], "edge", GraphError)
    return checked.astype(np.float64 if checked.dtype.kind == "f" else np.int64)


def event_links(
    data: HeteroData, relations: list[_Key], part: NDArray[np.int64] | None, split: Split | None
) -> tuple[EventLinks | None, tuple[str, ...]]:
    """Returns the links of `relations` in the order of time, and notes.

    Args:
        data: The graph.
        relations: The predicted relations.
        part: The part of each link, relation by relation; None if there is no split.
        split: Replaces `part` by shares in the order of time; its seed has no effect.

    Returns:
        None if a relation has no times, or if the links of `part` are not in the order of time, as in a split per user.

    Raises:
        GraphError: Times are not valid or too few for each part, or a relation shows the links without their times.
    """
    found = [edge_times(data[one], ",".join(one)) for one in relations]
    times = [one for one in found if one is not None]
    if len(times) < len(relations):
        lack = ", ".join(",".join(one) for one, of in zip(relations, found, strict=True) if of is None)
        return None, (f"times of links are not used, because {lack} has none",) if times else ()
    joined = np.concatenate(times)
    if part is not None and split is None:
        if (leak := _leak(joined, part)) is not None:
            pairs = np.concatenate([array_of("edge_index", data[one].edge_index) for one in relations], axis=1)
            return None, (_unordered(*leak, pairs, joined),)
        notes: tuple[str, ...] = ()
    else:
        shares = _SHARES if split is None else split.shares
        part = _by_time(joined, shares)
        notes = (f"links were split {'/'.join(f'{100 * share:g}' for share in shares)} in the order of time",)
    _check_mirrors(data, relations)
    order = np.argsort(joined, kind="stable")
    return EventLinks(order, part[order], joined[order]), notes


def _leak(times: NDArray[Any], part: NDArray[np.int64]) -> tuple[int, NDArray[np.bool_]] | None:
    """Returns the first part with links that are not later than all links of earlier parts, and which these are."""
    for code in (1, 2):
        late = (part == code) & (times <= times[part < code].max(initial=times.min()))
        if late.any() and (part < code).any():
            return code, late
    return None


def _unordered(code: int, late: NDArray[np.bool_], pairs: NDArray[Any], times: NDArray[Any]) -> str:
    first = int(late.argmax())
    return (
        f"times of links are not used, because {int(late.sum()):,} {_NAMES[code]} links are not later than all links "
        f"of earlier parts, such as ({pairs[0, first]}, {pairs[1, first]}) at {times[first]}; "
        f"{option('split', '0.7,0.15,0.15')} splits in the order of time"
    )


def _by_time(times: NDArray[Any], shares: tuple[float, ...]) -> NDArray[np.int64]:
    """Returns the part of each link; links of one time are in one part."""
    bounds = np.round(np.cumsum(shares[:2]) * len(times)).astype(int)
    cuts = np.sort(times)[np.minimum(bounds, len(times) - 1)]
    part = np.searchsorted(cuts, times, side="right").astype(np.int64)
    counts = np.bincount(part, minlength=3)
    if not counts.all():
        raise GraphError(
            f"a split in the order of time must have a train, a val and a test link, got {', '.join(map(str, counts))} "
            "of links; links of one time stay together, so give larger shares"
        )
    return part


def _check_mirrors(data: HeteroData, relations: list[_Key]) -> None:
    """Checks that no relation without times has mostly the pairs of one of `relations`."""
    index = {tuple(one): array_of("edge_index", data[one].edge_index).astype(np.int64) for one in data.edge_types}
    for relation in relations:
        for mirror in mirrors_of(relation, index):
            if edge_times(data[mirror], ",".join(mirror)) is None:
                raise GraphError(
                    f"{','.join(mirror)} must have times, because it has the pairs of {','.join(relation)} and would "
                    "show links before their time; give it `time`, or leave it out"
                )
