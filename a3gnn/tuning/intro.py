"""The lines that say where a study takes place."""

from __future__ import annotations

from collections.abc import Iterator

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.hardware import Hardware
from a3gnn.units import format_size


def intro(hardware: Hardware, graph: GraphCharacteristics) -> Iterator[str]:
    """Yields what the machine and the graph are, a line each."""
    device = (
        f", {hardware.device} with {format_size(hardware.device_memory_bytes)}" if hardware.has_device else ", no GPU"
    )
    label = f"{hardware.label}: " if hardware.label else ""
    memory = format_size(hardware.host_memory_bytes)
    yield f"{label}{hardware.cpu}, {hardware.num_cores} cores, {memory} memory{device}"
    yield (
        f"{graph.name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_features:,} features, "
        f"{graph.num_train:,} train seeds"
    )
