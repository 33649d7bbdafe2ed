"""Which knobs decide where others are idle, and so have to be looked at together."""

from __future__ import annotations

from collections.abc import Sequence

from a3gnn.knobs import Knob

#: Partitions that can't be made are replaced by others, of as many parts or of fewer.
_REPLACED_TOGETHER = frozenset({"num_partitions", "partitioner"})


def tied_knobs(knobs: Sequence[Knob]) -> list[list[int]]:
    """Returns the positions of `knobs` in groups: what is canonical in one group depends on no knob of another.

    A knob shares a group with those that decide where it is idle.
    """
    position = {knob.name: j for j, knob in enumerate(knobs)}
    tied = [{knob.name, *knob.idle.names} for knob in knobs]
    groups = [{j} for j in range(len(knobs))]
    for names in (*tied, _REPLACED_TOGETHER):
        together = {position[name] for name in names}
        apart = [group for group in groups if not group & together]
        groups = [*apart, together.union(*(group for group in groups if group & together))]
    return sorted(sorted(group) for group in groups)
