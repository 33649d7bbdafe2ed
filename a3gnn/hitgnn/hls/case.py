"""`Case`: a mini-batch's training step as arrays, and the input and output files of accelerators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

#: The first number of a case's file, whose reader is `read_case` in template/host/case.cpp.
_MAGIC = 0x53484C31

#: float32 array of any shape.
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LayerCase:
    """A layer: aggregated rows times weights, plus bias, followed by ReLU if `rectified`.

    A destination's aggregated row consists of `parts` pieces side by side. Edges go to pieces: piece p of destination i
    is `i * parts + p`.
    """

    num_sources: int  # rows of the layer's input
    num_destinations: int  # rows of its output
    sources: NDArray[np.uint32]  # the source of each edge, uint32, shape (num_edges,)
    pieces: NDArray[np.uint32]  # the piece to which each edge adds, uint32, shape (num_edges,)
    factors: Floats  # the factor of each edge's source row, float32, shape (num_edges,)
    weight: Floats  # float32, shape (parts * in_columns, out_columns)
    bias: Floats  # float32, shape (out_columns,)
    rectified: bool  # whether ReLU follows
    parts: int  # pieces per destination

    @property
    def in_columns(self) -> int:
        """Columns of the layer's input."""
        return len(self.weight) // self.parts

    def write(self, file: BinaryIO) -> None:
        """Appends the layer to a case's file."""
        sizes = self.num_sources, self.num_destinations, self.in_columns, len(self.bias), self.parts, self.rectified
        np.array([*sizes, len(self.sources)], dtype="<u4").tofile(file)
        for edges, kind in ((self.sources, "<u4"), (self.pieces, "<u4"), (self.factors, "<f4")):
            edges.astype(kind).tofile(file)
        for values in (self.weight, self.bias):
            values.astype("<f4").tofile(file)


@dataclass(frozen=True, eq=False)
class Case:
    """A training step: the mini-batch's layers, its features, and the gradient of the last layer's output."""

    layers: tuple[LayerCase, ...]  # the input layer first; each one's destinations are the next one's sources
    features: Floats  # float32, shape (num_sources of the first layer, in_columns)
    gradient: Floats  # float32, shape (num_destinations of the last layer, its out_columns)

    def write(self, path: Path) -> None:
        """Writes the file that the C simulation and the OpenCL host program read."""
        with path.open("wb") as file:
            np.array([_MAGIC, len(self.layers)], dtype="<u4").tofile(file)
            for layer in self.layers:
                layer.write(file)
            self.features.astype("<f4").tofile(file)
            self.gradient.astype("<f4").tofile(file)


@dataclass(frozen=True, eq=False)
class LayerResult:
    """A layer's results, forward and backward; float32, with sizes from `LayerCase`."""

    out: Floats  # output, shape (num_destinations, out_columns)
    weight_gradient: Floats  # shape (parts * in_columns, out_columns)
    bias_gradient: Floats  # shape (out_columns,)
    source_gradient: Floats  # gradient of the layer's input, shape (num_sources, in_columns)

    @classmethod
    def read(cls, path: Path, case: Case) -> list[Self]:
        """Reads the results of `case`, one per layer, from the file that a simulation or host program wrote."""
        values = np.fromfile(path, dtype="<f4")
        results: list[Self] = []
        for layer in case.layers:
            out, sources = (layer.num_destinations, len(layer.bias)), (layer.num_sources, layer.in_columns)
            shapes = (out, layer.weight.shape, layer.bias.shape, sources)
            *parts, values = np.split(values, np.cumsum([math.prod(shape) for shape in shapes]))
            results.append(cls(*(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))))
        return results

    def errors(self, expected: LayerResult) -> dict[str, float]:
        """Returns, by field, the largest difference from `expected` relative to the field's largest expected value.

        It is inf if a value of either is not finite, because Python's `max` would skip a NaN.
        """
        found = {}
        for name in LayerResult.__dataclass_fields__:
            mine, theirs = getattr(self, name), getattr(expected, name)
            if not (np.isfinite(mine).all() and np.isfinite(theirs).all()):
                found[name] = float("inf")
                continue
            scale = float(np.abs(theirs).max(initial=0.0))
            found[name] = float(np.abs(mine - theirs).max(initial=0.0)) / (scale or 1.0)
        return found
