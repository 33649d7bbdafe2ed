"""The operations of a step on a simulated platform, one by one, and their seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from a3gnn.checks import whole_number
from a3gnn.errors import UsageError
from a3gnn.hybrid.simulation.platform import SimulatedAccelerator, SimulatedProcessor
from a3gnn.sampling.counts import Counts

#: Bytes of a value; of a node's id or an entry of the adjacency; of Adam's traffic per parameter; of a cache line.
_VALUE, _ID, _ADAM, _LINE = 4.0, 4.0, 28.0, 64.0
#: Bytes that an accelerator keeps per parameter: weight, gradient, two moments.
_KEPT = 16.0


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """The shape of the trained model.

    Attributes:
        widths: Values per node: features, then the output of each layer.
        concatenates: Whether the update also takes a node's own row, beside the aggregate (GraphSAGE).
        fused_gather: Whether the host sums the input layer's rows while it loads them.
    """

    widths: tuple[int, ...]
    concatenates: bool = False
    fused_gather: bool = False

    def __post_init__(self) -> None:
        if len(self.widths) < 2:
            raise UsageError(f"widths must be those of the features and of each layer, got {self.widths}")
        for width in self.widths:
            whole_number("widths", width, 1)

    @property
    def parameters(self) -> int:
        """Number of weights, biases included."""
        pairs = zip(self.widths, self.widths[1:], strict=False)
        return sum((self.operands * wide + 1) * out for wide, out in pairs)

    @property
    def operands(self) -> int:
        """Rows of the previous layer's width that a node's update multiplies."""
        return 2 if self.concatenates else 1

    def loaded_bytes(self, counts: Counts) -> float:
        """Returns the bytes that loading reads for a trainer: cache lines of its rows, or its edges' if it sums them.

        A row whose size is not a multiple of a line may begin anywhere in a line.
        """
        rows = counts.layers[0][2] if self.fused_gather else counts.input_nodes
        size = _VALUE * self.widths[0]
        return rows * (size if size % _LINE == 0 else size + _LINE - _VALUE)

    def sent_bytes(self, counts: Counts) -> float:
        """Returns the bytes sent to a trainer: features, ids and adjacency."""
        rows = self.operands * counts.layers[0][1] if self.fused_gather else counts.input_nodes
        return _VALUE * self.widths[0] * rows + sampled_bytes(counts)

    def kept_bytes(self, counts: Counts) -> float:
        """Returns the bytes of a mini-batch in an accelerator's memory during training."""
        outputs = zip(counts.layers, self.widths, self.widths[1:], strict=False)
        kept = sum(nodes * (self.operands * wide + 2 * out) for (_, nodes, _), wide, out in outputs)
        return self.sent_bytes(counts) + _VALUE * kept + _KEPT * self.parameters


def sampled_bytes(counts: Counts) -> float:
    """Returns the bytes of ids and adjacency."""
    return _ID * (sum(counts.edges) + sum(counts.nodes))


@dataclass(frozen=True, slots=True)
class Operation:
    """A kernel, or a function on the host.

    Attributes:
        flops: Multiplications and additions.
        moved_bytes: Bytes read from and written to the memory beside the trainer.
        chip_bytes: The part of `moved_bytes` that stays on the chip if kernels are pipelined: intermediate results.
        rows: Rows of a matrix product; 0 for other operations (aggregation, activation, update of weights).
        layer: The layer. Aggregation and update of one layer and direction are pipelined.
        backward: Whether it belongs to the backward pass.
    """

    flops: float
    moved_bytes: float
    chip_bytes: float
    rows: float
    layer: int
    backward: bool


def operations(model: SimulatedModel, counts: Counts) -> Iterator[Operation]:
    """Yields a trainer's operations for one mini-batch: forward, backward, optimizer."""
    layers = list(zip(counts.layers, model.widths, model.widths[1:], strict=False))
    for number, ((_, nodes, edges), wide, out) in enumerate(layers):
        rows = nodes * model.operands * wide
        if not (number == 0 and model.fused_gather):
            summed = nodes * wide * _VALUE
            yield Operation(edges * wide, edges * (wide * _VALUE + _ID) + summed, summed, 0.0, number, False)
        product = _VALUE * (rows + nodes * out + model.operands * wide * out)
        yield Operation(2 * rows * out, product, _VALUE * (rows + nodes * out), nodes, number, False)
        yield Operation(nodes * out, 2 * _VALUE * nodes * out, 2 * _VALUE * nodes * out, 0.0, number, False)
    for number, ((sources, nodes, edges), wide, out) in reversed(list(enumerate(layers))):
        rows = nodes * model.operands * wide
        product = _VALUE * (rows + nodes * out + model.operands * wide * out)
        yield Operation(2 * rows * out, product, _VALUE * nodes * out, nodes, number, True)
        if number:
            yield Operation(2 * rows * out, product, _VALUE * (rows + nodes * out), nodes, number, True)
            scattered = edges * (wide * _VALUE + _ID) + sources * wide * _VALUE
            yield Operation(edges * wide, scattered, sources * wide * _VALUE, 0.0, number, True)
    yield Operation(4.0 * model.parameters, _ADAM * model.parameters, 0.0, 0.0, 0, True)


@dataclass(frozen=True, slots=True)
class HostWork:
    """The cost of a step on the processors.

    Attributes:
        seconds: Seconds, if nothing else used the host's memory.
        moved_bytes: Bytes that the step moves.
    """

    seconds: float
    moved_bytes: float


def on_processor(processor: SimulatedProcessor, threads: int, model: SimulatedModel, counts: Counts) -> HostWork:
    """Returns the cost of a step on `threads` threads; each operation is bound by arithmetic or by memory."""
    speed = processor.speed(threads)
    bandwidth = min(processor.memory_bytes_per_s, speed * processor.load_bytes_per_s)
    seconds = moved = 0.0
    for one in operations(model, counts):
        seconds += processor.launch_s + max(one.flops / (speed * processor.flops_per_s), one.moved_bytes / bandwidth)
        moved += one.moved_bytes
    return HostWork(seconds, moved)


def on_accelerator(device: SimulatedAccelerator, model: SimulatedModel, counts: Counts) -> float:
    """Returns the seconds of a step on `device`, whose memory nobody else uses."""
    total = 0.0
    streams: dict[tuple[int, bool], tuple[float, float]] = {}
    for one in operations(model, counts):
        speed = device.flops_per_s * one.rows / (one.rows + device.half_rows) if one.rows else device.flops_per_s
        moved = one.moved_bytes - (one.chip_bytes if device.pipelined else 0.0)
        seconds = max(one.flops / max(speed, 1.0), moved / device.memory_bytes_per_s)
        if device.pipelined:
            update, rest = streams.get((one.layer, one.backward), (0.0, 0.0))
            streams[one.layer, one.backward] = (update + seconds, rest) if one.rows else (update, rest + seconds)
            total += device.launch_s
        else:
            total += device.launch_s + seconds
    return total + sum(max(pair) + device.flush_s for pair in streams.values())


def sampling_on_processor(processor: SimulatedProcessor, threads: int, counts: Counts) -> float:
    """Returns the seconds in which `threads` threads sample the edges in `counts`."""
    return sum(counts.edges) / (processor.speed(threads) * processor.sampled_edges_per_s)


def sampling_on_accelerator(device: SimulatedAccelerator, counts: Counts) -> float:
    """Returns the seconds in which an otherwise idle `device` samples the edges in `counts`."""
    return device.launch_s + sum(counts.edges) / device.sampled_edges_per_s
