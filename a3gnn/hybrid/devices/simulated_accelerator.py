"""A simulated accelerator: its constants, the operations of a step one by one, and their seconds.

It imports nothing of the performance model, which is tested against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from a3gnn.checks import positive_number, real_number, whole_number
from a3gnn.errors import UsageError
from a3gnn.sampling.counts import Counts

#: Bytes of a value; of a node's id or an entry of the adjacency; of Adam's traffic per parameter.
_VALUE, _ID, _ADAM = 4.0, 4.0, 28.0
#: Bytes that an accelerator keeps per parameter: weight, gradient, two moments.
_KEPT = 16.0


@dataclass(frozen=True, slots=True)
class SimulatedAccelerator:
    """One accelerator behind its link.

    Attributes:
        flops_per_s: Multiplications and additions per second.
        memory_bytes_per_s: Bandwidth of its memory.
        memory_bytes: Size of its memory.
        link_bytes_per_s: Bandwidth of its link to the host.
        link_latency_s: Seconds before the first byte of a copy arrives.
        launch_s: Seconds to start one kernel.
        sampled_edges_per_s: Edges that it samples per second; 0 if it can't.
        samples_beside: Whether sampling has circuits of its own (an FPGA), or takes the device's time (a GPU).
        pipelined: Whether aggregation streams into the update (an FPGA). Each operation then costs the slower of both,
            intermediate results stay on the chip, and `flush_s` is added.
        flush_s: Seconds to drain the pipeline of kernels after each layer.
        half_rows: Rows at which a matrix product reaches half of its peak speed.
    """

    flops_per_s: float
    memory_bytes_per_s: float
    memory_bytes: float
    link_bytes_per_s: float
    link_latency_s: float = 1e-5
    launch_s: float = 1e-5
    sampled_edges_per_s: float = 0.0
    samples_beside: bool = False
    pipelined: bool = False
    flush_s: float = 0.0
    half_rows: float = 64.0

    def __post_init__(self) -> None:
        for name in ("flops_per_s", "memory_bytes_per_s", "memory_bytes", "link_bytes_per_s"):
            positive_number(name, getattr(self, name), "a number")
        for name in ("link_latency_s", "launch_s", "flush_s"):
            real_number(name, getattr(self, name), "seconds")
        real_number("sampled_edges_per_s", self.sampled_edges_per_s, "edges per second")
        real_number("half_rows", self.half_rows, "rows")


#: The table's peak performance and memory bandwidth, links of 16 GB/s; launches and flushes are guesses.
U250 = SimulatedAccelerator(0.6e12, 77e9, 64e9, 16e9, launch_s=5e-5, samples_beside=True, pipelined=True, flush_s=5e-5)
A5000 = SimulatedAccelerator(27.8e12, 768e9, 24e9, 16e9, launch_s=1e-5)
ACCELERATORS = {"u250": U250, "a5000": A5000}


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
            raise UsageError(f"widths must have one number for the features and one per layer, got {self.widths}")
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
    """A kernel, or a function on the host."""

    flops: float  # multiplications and additions
    moved_bytes: float  # bytes read from and written to the memory beside the trainer
    chip_bytes: float  # the part of `moved_bytes` that stays on the chip if kernels are pipelined: intermediate results
    rows: float  # rows of a matrix product; 0 for other operations (aggregation, activation, update of weights)
    layer: int  # the layer. Aggregation and update of one layer and direction are pipelined
    backward: bool  # whether it belongs to the backward pass


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
