"""`compare_cycles`: what the C simulation counted, beside HitGNN's performance model (section VI-B)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from a3gnn.hls.design import Design
from a3gnn.hls.simulation import KernelCall


@dataclass(frozen=True, slots=True)
class CycleComparison:
    """Cycles of a kernel, all slabs of a layer's rows together.

    Attributes:
        layer: The layer, 0 for the input layer.
        direction: forward or backward.
        kernel: aggregate, or update, of which a backward pass has two.
        counted: Until the last product was added: by the gather units, or in the array of multipliers. Where an update
            takes longer to write its blocks, one word per cycle, the cycles of that: the array would wait.
        computing: By the model: |A| f / (16 n) of an aggregate, |V| f_in f_out / m of an update. The width
            f of an aggregate counts with the zeros that pad rows to 16 values.
        reading: Of an aggregate, words of features that were read, one per cycle; 0 of an update.
        written: Until the last word was written to memory, which the model leaves out.
    """

    layer: int
    direction: str
    kernel: str
    counted: int
    computing: float
    reading: int
    written: int

    @property
    def modelled(self) -> float:
        """The model's cycles: reading and computing run at once."""
        return max(self.computing, self.reading)


def compare_cycles(design: Design, calls: Iterable[KernelCall]) -> list[CycleComparison]:
    """Returns a comparison per aggregate and per update among the `calls` of a simulation, in their order."""
    compared = []
    for _, same in groupby(calls, key=lambda call: (call.layer, call.direction, call.kernel)):
        group = list(same)
        if group[0].kernel == "aggregate":
            compared.append(_of_aggregate(design, group))
        elif group[0].kernel == "update":
            compared += [_of_update(design, call) for call in group]
    return compared


def _of_aggregate(design: Design, slabs: list[KernelCall]) -> CycleComparison:
    first = slabs[0]
    return CycleComparison(
        first.layer,
        first.direction,
        first.kernel,
        sum(call.marks["summed"] for call in slabs),
        sum(call.sizes["edges"] * call.sizes["words"] for call in slabs) / design.units,
        sum(call.counts.get("feature_words", 0) for call in slabs),
        sum(call.cycles for call in slabs),
    )


def _of_update(design: Design, call: KernelCall) -> CycleComparison:
    sizes = call.sizes
    computing = sizes["rows"] * sizes["depth"] * sizes["columns"] / design.multipliers
    counted = max(call.ends["multiply_add"], call.iterations["write_block"])
    return CycleComparison(call.layer, call.direction, call.kernel, counted, computing, 0, call.cycles)
