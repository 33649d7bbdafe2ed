"""PyG's own modules with the shapes of the built-in models, and conversion of weights between both.

module = pyg_module(task, graph.num_features, graph.num_classes)
module.load_state_dict(to_pyg_state_dict(torch.load("runs/train-mine/model.pt"), task))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from a3gnn.errors import ConfigError
from a3gnn.models.layers.layer import PYG_NORMS
from a3gnn.task import Task

#: PyG's default in batch normalization.
_EPS = 1e-5


def pyg_module(task: Task, in_channels: int, out_channels: int) -> nn.Module:
    """Returns PyG's untrained `GraphSAGE`, `GCN`, `GAT`, `GIN`, or a `BasicGNN` of `TransformerConv`.

    The task determines its layers, widths, heads, norms and dropout.

    Raises:
        ConfigError: PyG has no such module.
    """
    from torch_geometric.nn import models

    from a3gnn.training.pyg_transformer import Transformer

    _check(task)
    by_model: dict[str, tuple[Any, dict[str, Any]]] = {
        "sage": (models.GraphSAGE, {}),
        "gcn": (models.GCN, {}),
        "gat": (models.GAT, {"heads": task.heads}),
        "gin": (models.GIN, {}),
        "gatv2": (models.GAT, {"v2": True, "heads": task.heads}),
        "transformer": (Transformer, {"heads": task.heads}),
    }
    make, options = by_model[task.model]
    norm = "batch" if task.model == "gin" and task.norm == "none" else task.norm
    if task.edge_dim and task.edge_value == "edge_attr":
        options["edge_dim"] = task.edge_dim
    if norm != "none":
        options["norm"], options["norm_kwargs"] = PYG_NORMS[norm]
    module: nn.Module = make(
        in_channels, task.hidden_channels, task.num_layers, out_channels, dropout=task.dropout, **options
    )
    return module


def to_pyg_state_dict(state: Mapping[str, Tensor], task: Task) -> dict[str, Tensor]:
    """Returns the state dict of the task's `pyg_module` with the weights of a built-in model's `state`.

    Both models give the same outputs on a whole graph, up to rounding. PyG's `GIN` can't normalize only in its MLPs. So
    for a task without norms, its norms between layers get statistics that leave rows unchanged in evaluation.

    Args:
        state: A state dict from model.pt or `Trainer.model`.
        task: The trained task.

    Raises:
        ConfigError: PyG has no such module.
    """
    _check(task)
    return dict(state) | _identity_norms(state, task)


def from_pyg_state_dict(state: Mapping[str, Tensor], task: Task) -> dict[str, Tensor]:
    """Returns the state dict of the task's built-in model with the weights of `state`, from its `pyg_module`.

    Raises:
        ConfigError: PyG has no such module, or `state` has norms between layers and the task has none.
    """
    _check(task)
    norms = _identity_norms(state, task)
    for name, expected in norms.items():
        counted = name.endswith("num_batches_tracked")
        if not counted and name in state and not torch.equal(state[name].cpu(), expected):
            raise ConfigError(
                f"{name} must leave rows unchanged for a model without norms between its layers, got statistics or "
                "weights that change them. No built-in model is PyG's GIN(norm=None), which has no norms in its "
                "MLPs either"
            )
    return {name: value for name, value in state.items() if name not in norms}


def _identity_norms(state: Mapping[str, Tensor], task: Task) -> dict[str, Tensor]:
    """Returns batch norms between PyG's GIN layers that change no row in evaluation; empty for other models."""
    if task.model != "gin" or task.norm != "none":
        return {}
    found: dict[str, Tensor] = {}
    for i in range(task.num_layers - 1):
        norm = nn.BatchNorm1d(len(state[f"convs.{i}.nn.lins.1.bias"]), eps=_EPS)
        assert norm.running_var is not None
        norm.running_var.fill_(1 - _EPS)
        found |= {f"norms.{i}.module.{name}": value for name, value in norm.state_dict().items()}
    return found


def _check(task: Task) -> None:
    if task.is_own:
        raise ConfigError(f"model must be a built-in one, got {task.model}; your own model is already a module")
    if task.residual:
        raise ConfigError(
            f"residual must be False for a PyG module, got {task.residual}; PyG's models have no residual connections"
        )
