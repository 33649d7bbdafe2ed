"""The lines that describe the machine and the graph of a study."""

from __future__ import annotations

from collections.abc import Iterator

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.hardware import Hardware
from a3gnn.units import count, format_size


def intro(hardware: Hardware, graph: GraphCharacteristics) -> Iterator[str]:
    """Yields a line about the machine, and a line about the graph."""
    device = (
        f", {hardware.device} with {format_size(hardware.device_memory_bytes)}" if hardware.has_device else ", no GPU"
    )
    label = f"{hardware.label}: " if hardware.label else ""
    memory = format_size(hardware.host_memory_bytes)
    yield f"{label}{hardware.cpu}, {count(hardware.num_cores, 'core')}, {memory} memory{device}"
    yield (
        f"{graph.name}: {count(graph.num_nodes, 'node')}, {count(graph.num_edges, 'edge')}, "
        f"{count(graph.num_features, 'feature')}, {count(graph.num_train, 'train seed')}"
    )
