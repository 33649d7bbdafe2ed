"""`make_norm`: PyG's normalisation layers by the task's names."""

from __future__ import annotations

from typing import Any

from torch import nn

#: PyG's name of each, and its options: a single row has no variance, and is normalised with the running statistics;
#: each row is normalised by itself, whatever other rows are there.
PYG_NORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "batch": ("batch_norm", {"allow_single_element": True}),
    "layer": ("layer_norm", {"mode": "node"}),
}


def make_norm(name: str, width: int) -> nn.Module:
    """Returns PyG's `BatchNorm` or `LayerNorm` of so many columns. Importing PyG takes 65 MiB.

    Args:
        name: batch or layer.
        width: Columns.
    """
    from torch_geometric.nn.resolver import normalization_resolver

    kind, options = PYG_NORMS[name]
    made: nn.Module = normalization_resolver(kind, width, **options)
    return made
