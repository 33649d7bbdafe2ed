"""Which machine of a kind runs a study's trials: studies are spread evenly over them, those that begin together too."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from a3gnn.profiling.cluster.connection import Connection
from a3gnn.profiling.cluster.kinds import Machine

#: Seconds after which studies that chose at the same time are listed. Guess: an actor's name is, in milliseconds.
_SETTLE_S = 0.5
#: How often a study chooses at most, then it stays. Guess: studies that begin meanwhile are few.
_MOST_CHOICES = 8


class Place(NamedTuple):
    """Where a study's trials run.

    Attributes:
        machine: That which runs them.
        source: The actor by which the study is counted there, and from which the machine gets graphs.
    """

    machine: Machine
    source: Any


def take_place(cluster: Connection, machines: Sequence[Machine], lost: Collection[str]) -> Place:
    """Returns a place on the one of `machines` that has the fewest studies; one of those that were `lost` at last.

    Studies that begin together see none of each other, and choose the same. So a study looks again once its own actor
    is listed: where as many as two more began before it on its machine than another one has, it leaves for that. Those
    that began before have names that sort before, so all agree on which of them leave.
    """
    choices = 0
    while True:
        machine = min(machines, key=lambda one: (one.node in lost, cluster.studies(one.node), one.name))
        others = [one.node for one in machines if one != machine and one.node not in lost]
        name, source = cluster.start_source(machine.node)
        choices += 1
        try:
            if not others or choices == _MOST_CHOICES:
                return Place(machine, source)
            time.sleep(_SETTLE_S)
            if cluster.studies(machine.node, before=name) <= min(map(cluster.studies, others)):
                return Place(machine, source)
        except BaseException:
            cluster.end_source(source)
            raise
        cluster.end_source(source)
