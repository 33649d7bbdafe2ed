"""The parameters of a synthetic graph, as written in its name."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Self

from a3gnn.errors import UsageError, unknown_name

_RANGES: dict[str, tuple[float, float]] = {
    "nodes": (10, 2**31 - 1),
    "degree": (1, 10_000),
    "classes": (2, 1_000),
    "features": (1, 100_000),
    "power": (2.01, 10),
    "homophily": (0, 1),
    "mixing": (0, 1),
    "noise": (0.01, 100),
    "density": (1e-5, 1),
    "train": (0, 1),
    "val": (0, 1),
    "seed": (0, 2**63 - 1),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parameters of `synthetic:KEY=VALUE,...`.

    Attributes:
        degree: Mean degree, before duplicate edges are removed (a tenth on the default graph).
        classes: Number of classes, one per community.
        features: Columns of the feature matrix.
        power: Exponent of the degrees' power law, above 2.
        homophily: Share of edges within a community.
        mixing: Share of edges within its community of the node of lowest degree, minus the share of the node of highest
            degree.
        noise: Standard deviation of a feature around its class's mean, a vector of length 1.
        density: Share of stored features; below 1 they are CSR rows of words.
        train: Share of the nodes that are train seeds.
        val: Share of the nodes that are validation nodes; the remaining nodes are test nodes.
        seed: Seed of all random draws.

    Raises:
        UsageError: A value is out of range.
    """

    nodes: int = 20_000
    degree: float = 15.0
    classes: int = 8
    features: int = 64
    power: float = 2.1
    homophily: float = 0.6
    mixing: float = 0.5
    noise: float = 1.0
    density: float = 1.0
    train: float = 0.3
    val: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise UsageError(f"synthetic: {name} must be in [{low:g}, {high:g}], got {value:g}")
        if self.train + self.val >= 1:
            raise UsageError(
                f"synthetic: train + val must be below 1, got {self.train:g} + {self.val:g}; the rest is the test set"
            )
        if self.degree >= self.nodes:
            raise UsageError(f"synthetic: degree must be below nodes, got {self.degree:g} and {self.nodes}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the recipe of `KEY=VALUE,...`; missing keys have their defaults.

        Raises:
            UsageError: A key is unknown or given twice, or a value is not a number within its range.
        """
        fields: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            key, _, value = (piece.strip() for piece in part.partition("="))
            if key not in fields:
                raise unknown_name("a parameter of synthetic", key, fields)
            if key in values:
                raise UsageError(f"synthetic: {key} is given twice; give it once")
            kind = type(fields[key])
            try:
                values[key] = kind(value)
            except ValueError:
                wanted = "an integer" if kind is int else "a number"
                raise UsageError(f"synthetic: {key} must be {wanted} (default {fields[key]}), got {value!r}") from None
        return cls(**values)
