"""What trainers of a simulated platform execute: the operations of a step, one by one, and how long each takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from a3gnn.checks import whole_number
from a3gnn.errors import UsageError
from a3gnn.hybrid.simulation.platform import SimulatedAccelerator, SimulatedProcessor
from a3gnn.sampling.counts import Counts

#: Bytes of a value; of a node's id or an entry of the adjacency; that Adam reads and writes per parameter; of a line.
_VALUE, _ID, _ADAM, _LINE = 4.0, 4.0, 28.0, 64.0
#: Bytes that an accelerator keeps per parameter: weight, gradient, two moments.
_KEPT = 16.0


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """The shape of the model that is trained.

    Attributes:
        widths: Values per node: features, then the output of each layer.
        concatenates: Whether a node's own row is an operand of the update beside the aggregate (GraphSAGE).
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
        """Rows of the previous layer's width that the update of a node multiplies."""
        return 2 if self.concatenates else 1

    def loaded_bytes(self, counts: Counts) -> float:
        """Returns the bytes that loading reads for a trainer: cache lines of its rows, or its edges' if it sums them.

        Rows that are no multiple of a line begin anywhere in one.
        """
        rows = counts.layers[0][2] if self.fused_gather else counts.input_nodes
        size = _VALUE * self.widths[0]
        return rows * (size if size % _LINE == 0 else size + _LINE - _VALUE)

    def sent_bytes(self, counts: Counts) -> float:
        """Returns the bytes that are sent to a trainer: features, ids and adjacency."""
        rows = self.operands * counts.layers[0][1] if self.fused_gather else counts.input_nodes
        return _VALUE * self.widths[0] * rows + sampled_bytes(counts)

    def kept_bytes(self, counts: Counts) -> float:
        """Returns the bytes that a mini-batch takes in an accelerator's memory while it is trained."""
        outputs = zip(counts.layers, self.widths, self.widths[1:], strict=False)
        kept = sum(nodes * (self.operands * wide + 2 * out) for (_, nodes, _), wide, out in outputs)
        return self.sent_bytes(counts) + _VALUE * kept + _KEPT * self.parameters


def sampled_bytes(counts: Counts) -> float:
    """Returns the bytes of ids and adjacency."""
    return _ID * (sum(counts.edges) + sum(counts.nodes))


@dataclass(frozen=True, slots=True)
class Operation:
    """One kernel, or function on the host.

    Attributes:
        flops: Multiplications and additions.
        moved_bytes: Read and written, out of the memory beside the trainer.
        chip_bytes: Intermediate results: of `moved_bytes`, what stays on the chip where kernels are pipelined.
        rows: Of the matrix product; 0 for one that aggregates, activates or updates weights.
        layer: Whose it is; aggregation and update of one layer and direction are pipelined.
        backward: Its direction.
    """

    flops: float
    moved_bytes: float
    chip_bytes: float
    rows: float
    layer: int
    backward: bool


def operations(model: SimulatedModel, counts: Counts) -> Iterator[Operation]:
    """Yields what a trainer executes for one mini-batch: forward, backward, optimiser."""
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
    """What a step takes on the processors.

    Attributes:
        seconds: If nobody else used the host's memory.
        moved_bytes: That it moves meanwhile.
    """

    seconds: float
    moved_bytes: float


def on_processor(processor: SimulatedProcessor, threads: int, model: SimulatedModel, counts: Counts) -> HostWork:
    """Returns what a step on so many threads takes: each operation is bound by arithmetic or by memory."""
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
    """Returns the seconds in which so many threads sample what `counts` holds."""
    return sum(counts.edges) / (processor.speed(threads) * processor.sampled_edges_per_s)


def sampling_on_accelerator(device: SimulatedAccelerator, counts: Counts) -> float:
    """Returns the seconds in which `device` samples what `counts` holds, if it does nothing else."""
    return device.launch_s + sum(counts.edges) / device.sampled_edges_per_s
