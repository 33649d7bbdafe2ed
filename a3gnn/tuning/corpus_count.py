"""`CorpusCount`: how many measurements a study's predictions stand on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from a3gnn.measurement import Measurement, distinct
from a3gnn.setting import Setting
from a3gnn.units import count


class CorpusCount(NamedTuple):
    """Measurements that succeeded, copies counted once.

    Attributes:
        measurements: All.
        graphs: How many graphs they are of.
        of_graph: Those of the study's graph.
        on_machine: Those on its machine.
    """

    measurements: int
    graphs: int
    of_graph: int
    on_machine: int

    @classmethod
    def of(cls, corpus: Sequence[Measurement], setting: Setting) -> Self:
        """Returns the counts of `corpus` for `setting`."""
        found = [row.setting for row in distinct(corpus) if row.metrics is not None]
        return cls(
            measurements=len(found),
            graphs=len({one.graph.fingerprint for one in found}),
            of_graph=sum(one.graph.fingerprint == setting.graph.fingerprint for one in found),
            on_machine=sum(one.hardware.may_be(setting.hardware) for one in found),
        )

    def describe(self) -> str:
        """Returns them in a sentence."""
        return (
            f"Predicted from {count(self.measurements, 'measurement')} of {count(self.graphs, 'graph')}: "
            f"{self.of_graph:,} of this graph, {self.on_machine:,} on a machine like this one."
        )
