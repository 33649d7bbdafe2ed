"""`SimulatedDevice`: computes on the host's processors, with the times of a simulated accelerator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Self

from torch import Tensor

from a3gnn.errors import MemoryLimitError, unknown_name
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import MachineProfile
from a3gnn.hybrid.devices.processor import ProcessorDevice
from a3gnn.hybrid.devices.simulated_accelerator import (
    ACCELERATORS,
    SimulatedAccelerator,
    SimulatedModel,
    on_accelerator,
)
from a3gnn.hybrid.performance import AcceleratorSpeeds
from a3gnn.hybrid.stage_times import TrainerKind
from a3gnn.option_names import option
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.sampling.counts import Counts, counts_of
from a3gnn.task import Task
from a3gnn.units import format_size


class SimulatedDevice(ProcessorDevice):
    """Computes on one thread of the host, and reports the seconds that an accelerator would take.

    Each copy and each launch takes as long as it would alone. Attention and MLPs count as one aggregation and one
    product per layer. See `Device`.
    """

    kind: TrainerKind = "accelerator"
    is_simulated = True

    def __init__(self, name: str, accelerator: SimulatedAccelerator, model: SimulatedModel) -> None:
        super().__init__(name, threads=1)
        self._accelerator, self._model = accelerator, model
        self.memory_bytes = accelerator.memory_bytes

    @classmethod
    def open(cls, name: str, argument: str, graph: Graph, task: Task) -> Self:
        """Opens sim:NAME; see `a3gnn.hybrid.devices.opening`."""
        if argument not in ACCELERATORS:
            raise unknown_name(f"{option('trainers')} sim:NAME", argument, ACCELERATORS)
        hidden = [task.hidden_channels] * (task.num_layers - 1)
        widths = (graph.num_features, *hidden, graph.num_classes)
        return cls(name, ACCELERATORS[argument], SimulatedModel(widths, concatenates=task.model == "sage"))

    def speeds(self, profile: MachineProfile) -> AcceleratorSpeeds:
        """Returns the accelerator's constants."""
        one = self._accelerator
        return AcceleratorSpeeds(one.flops_per_s, one.memory_bytes_per_s, one.link_bytes_per_s, one.pipelined)

    def fits(self, counts: Counts) -> bool:
        """Returns whether a share with these counts fits into the accelerator's memory during training."""
        return self._model.kept_bytes(counts) <= self.memory_bytes

    def send(self, batch: MiniBatch) -> MiniBatch:
        """Returns `batch`, with the seconds in which it passes the link.

        Raises:
            MemoryLimitError: Training needs more than the accelerator's memory.
        """
        model, counts = self._shape(batch)
        needed, size = model.kept_bytes(counts), model.sent_bytes(counts)
        if needed > self._accelerator.memory_bytes:
            raise MemoryLimitError(
                f"{self.name} has {format_size(self._accelerator.memory_bytes)} memory, but a share of "
                f"{batch.num_seeds} seeds needs {format_size(needed)}; give it fewer by {option('trainer_shares')}"
            )
        self._took(batch, needed)
        sent_s = self._accelerator.link_latency_s + size / self._accelerator.link_bytes_per_s
        return dataclasses.replace(batch, seconds=dataclasses.replace(batch.seconds, transfer=sent_s))

    def launch(self, kernel: Callable[[MiniBatch], Tensor], batch: MiniBatch) -> Tensor:
        """Runs `kernel` on `batch`, and returns its result."""
        out = super().launch(kernel, batch)
        model, counts = self._shape(batch)
        self._seconds = on_accelerator(self._accelerator, model, counts)
        return out

    def transfer_seconds(self, batch: MiniBatch) -> float:
        """Returns the seconds in which `batch` passed the link."""
        return batch.seconds.transfer

    def _shape(self, batch: MiniBatch) -> tuple[SimulatedModel, Counts]:
        """Returns the work of `batch`; the rows of a table count as those of a last hop without edges."""
        counts, fused = counts_of(batch.subgraph), batch.aggregator is not None
        if len(counts.edges) < len(self._model.widths) - 1:
            counts = Counts((*counts.nodes, counts.input_nodes), (*counts.edges, 0.0))
        return dataclasses.replace(self._model, fused_gather=fused), counts
