"""Training steps, and what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from a3gnn.hitgnn.hls.case import Case, LayerCase, LayerResult

#: Of units, multipliers and, if need be, result_bytes: the folder of an accelerator.
Accelerator = Callable[..., Path]


def layer(
    sources: int, destinations: int, edges: tuple[np.ndarray, np.ndarray], columns: tuple[int, int], *, parts: int = 1
) -> LayerCase:
    """A layer with random weights and factors, and `edges` from sources to pieces."""
    draw = np.random.default_rng(sources + destinations)
    return LayerCase(
        sources,
        destinations,
        edges[0].astype(np.uint32),
        edges[1].astype(np.uint32),
        draw.normal(size=len(edges[0])).astype(np.float32),
        draw.normal(size=(parts * columns[0], columns[1])).astype(np.float32),
        draw.normal(size=columns[1]).astype(np.float32),
        rectified=False,
        parts=parts,
    )


def random_layer(
    sources: int, destinations: int, edges: int, columns: tuple[int, int], *, parts: int, seed: int = 0
) -> LayerCase:
    """A layer with random edges, some of them repeated."""
    draw = np.random.default_rng(seed)
    ends = draw.integers(0, sources, edges), draw.integers(0, parts * destinations, edges)
    return layer(sources, destinations, ends, columns, parts=parts)


def case_with(*layers: LayerCase, seed: int = 0) -> Case:
    """A training step of `layers` with random features and gradient."""
    draw, first, last = np.random.default_rng(seed), layers[0], layers[-1]
    features = draw.normal(size=(first.num_sources, first.in_columns)).astype(np.float32)
    return Case(layers, features, draw.normal(size=(last.num_destinations, len(last.bias))).astype(np.float32))


def computed(case: Case) -> list[LayerResult]:
    """The results of `case`, in float64."""
    inputs, sums, outs = [case.features.astype(float)], [], []
    for one in case.layers:
        pieces = np.zeros((one.num_destinations * one.parts, one.in_columns))
        np.add.at(pieces, one.pieces, one.factors[:, None] * inputs[-1][one.sources])
        sums.append(pieces.reshape(one.num_destinations, -1))
        out = sums[-1] @ one.weight + one.bias
        outs.append(np.maximum(out, 0) if one.rectified else out)
        inputs.append(outs[-1])
    gradient, results = case.gradient.astype(float), []
    for one, rows, summed, out in reversed(list(zip(case.layers, inputs[:-1], sums, outs, strict=True))):
        gradient = gradient * (out > 0) if one.rectified else gradient
        of_pieces = (gradient @ one.weight.T).reshape(-1, one.in_columns)
        of_rows = np.zeros_like(rows)
        np.add.at(of_rows, one.sources, one.factors[:, None] * of_pieces[one.pieces])
        results.append(LayerResult(out, summed.T @ gradient, gradient.sum(axis=0), of_rows))
        gradient = of_rows
    return results[::-1]


def worst(found: list[LayerResult], expected: list[LayerResult]) -> float:
    """The largest error of any result, relative to the largest value of its matrix."""
    return max(max(one.errors(other).values()) for one, other in zip(found, expected, strict=True))
