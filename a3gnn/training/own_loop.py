"""`applied`: applies a tuned configuration to the model and the optimizer of a user's own loop."""

from __future__ import annotations

import math
import sys
import warnings
from contextlib import suppress
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from a3gnn.acceleration.accelerate import LayerReport, accelerate, layers
from a3gnn.checks import whole_number
from a3gnn.config import TrainConfig
from a3gnn.errors import ModelError, UsageError
from a3gnn.models.own.user_model import UserModel, schedule_factor
from a3gnn.setting import Setting
from a3gnn.task import MODEL_LABELS, Task
from a3gnn.training.learner import LearningRate
from a3gnn.units import count

#: The model of each convolution of PyG.
_MODEL_OF = {
    "SAGEConv": MODEL_LABELS["sage"],
    "GCNConv": MODEL_LABELS["gcn"],
    "GATConv": MODEL_LABELS["gat"],
    "GATv2Conv": MODEL_LABELS["gatv2"],
    "GINConv": MODEL_LABELS["gin"],
    "TransformerConv": MODEL_LABELS["transformer"],
}


def applied(
    config: TrainConfig, setting: Setting, model: nn.Module, optimizer: Optimizer, batches_per_epoch: int | None
) -> LambdaLR:
    """Accelerates `model` in the tuned number format, and returns the schedule of the learning rate.

    `setting` is that of the tune; `TunedConfig.apply` has the other arguments and the errors.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"model must be a torch.nn.Module, got {model!r}")
    if not isinstance(optimizer, Optimizer):
        raise UsageError(f"optimizer must be a torch.optim.Optimizer over the model's parameters, got {optimizer!r}")
    task = setting.task
    _check_table(model, config, task)
    if batches_per_epoch is None:
        batches = _batches(config, task, setting.graph.num_train)
    else:
        batches = whole_number("batches_per_epoch", batches_per_epoch, 1, "len(loader) is the number")
    if differing := _differing(model, optimizer, task):
        scale = config.learning_rate_scale
        factor = f": the tuned learning rate factor x{scale:g} may not hold" if scale != 1 else ": it may not hold"
        warnings.warn(f"tuned for {differing}{factor}; give tune() model= and task=", stacklevel=3)
    accelerate(model, config.compute_dtype)
    return schedule_of(model, optimizer, config, task, batches)


def _differing(model: nn.Module, optimizer: Optimizer, task: Task) -> str:
    """Returns how the tuned task differs from `model` and `optimizer`, as `..., applied to ...`; "" if it does not.

    Built-in models are compared by their PyG convolutions, and your own by the shapes of their parameters.
    """
    pairs: list[tuple[str, str]] = []
    if task.own is not None:
        with suppress(ModelError):
            if task.own.shapes not in ("", UserModel.of(task.model, model).shapes):  # a search's are not known
                pairs.append((f"the parameters of {task.model}", f"{type(model).__name__} with others"))
    elif not task.is_own:
        wanted = (MODEL_LABELS[task.model], f"{count(task.num_layers, 'layer')}", f"{task.hidden_channels} columns")
        found = _described(model)
        if any(one not in (None, other) for one, other in zip(found, wanted, strict=True)):
            pairs.append((" of ".join(wanted), " of ".join(one for one in found if one is not None)))
    rates = sorted({float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups})
    if not all(math.isclose(rate, task.learning_rate, rel_tol=1e-6) for rate in rates):
        pairs.append((f"learning rate {task.learning_rate:g}", ", ".join(f"{rate:g}" for rate in rates)))
    return ", applied to ".join(" at ".join(side) for side in zip(*pairs, strict=True))


def _described(model: nn.Module) -> tuple[str, str | None, str | None]:
    """Returns the kind, layers and hidden width of `model`; None for what its layers do not show."""
    named = [(module, _kind(module)) for module in model.modules()]
    convolutions, kinds = [one for one, kind in named if kind], sorted({kind for _, kind in named if kind})
    if not kinds:
        return type(model).__name__, None, None
    widths = {width for module in convolutions[:-1] if (width := _width(module)) is not None}
    columns = f"{', '.join(map(str, sorted(widths)))} columns" if widths else None
    return ", ".join(kinds), count(len(convolutions), "layer"), columns


def _kind(layer: nn.Module) -> str | None:
    """Returns the model whose convolution `layer` is; None for other modules."""
    return next((_MODEL_OF[one.__name__] for one in type(layer).__mro__ if one.__name__ in _MODEL_OF), None)


def _width(layer: Any) -> int | None:
    """Returns the columns that a convolution of PyG returns; None if it does not say."""
    columns, heads = getattr(layer, "out_channels", None), getattr(layer, "heads", 1)
    return columns * (heads if getattr(layer, "concat", False) else 1) if isinstance(columns, int) else None


def schedule_of(
    model: nn.Module, optimizer: Optimizer, config: TrainConfig, task: Task, batches_per_epoch: int
) -> LambdaLR:
    """Returns a schedule with the factors of a3gnn's trainer, one step per mini-batch.

    Args:
        model: The `schedule` of a user's own model, if it has one, multiplies the factors.
        optimizer: Its rates are multiplied. They correspond to the task's rate.
        config: Its `learning_rate_scale` is used.
        task: Its learning rate and schedule are used.
        batches_per_epoch: Mini-batches per epoch.
    """
    rates, name = LearningRate.of(task, config, batches_per_epoch), type(model).__name__

    def factor(batch: int) -> float:
        own = schedule_factor(name, model, batch, batches_per_epoch) if task.is_own else 1.0
        return rates.at(batch) / task.learning_rate * own

    return LambdaLR(optimizer, factor)


def _check_table(model: nn.Module, config: TrainConfig, task: Task) -> None:
    """Checks that a layer of `model` reads the tuned table, if there is one; a model that takes adjs declared it."""
    if config.input_aggregation != "full" or (task.own is not None and task.own.takes == "adjs"):
        return
    from a3gnn.acceleration.inputs import table_of  # imports PyG

    found = [table_of(layer) for layer in model.modules()]
    if task.aggregates not in found:
        reads = sorted({one for one in found if one is not None})
        raise UsageError(
            f"input_aggregation full needs a layer that reads the tuned table of {task.aggregates}, got a model whose "
            f"layers read {', '.join(reads) or 'none'}; tune with this model, or use sampled"
        )


def _batches(config: TrainConfig, task: Task, train_nodes: int) -> int:
    """Returns the mini-batches per epoch of the tune; with parts, each of which has a last one, the caller counts."""
    depends = config.learning_rate_scale > 1 or task.lr_epochs is not None
    if depends and config.num_partitions > 1:
        raise UsageError(
            f"batches_per_epoch must be given with num_partitions={config.num_partitions} and learning_rate_scale="
            f"{config.learning_rate_scale:g}, because the number of mini-batches depends on the parts; give len(loader)"
        )
    return math.ceil(train_nodes / config.batch_size)


def accelerated(model: UserModel) -> list[LayerReport]:
    """Accelerates a model that takes edge_index, in place; returns where each of its convolutions is computed."""
    if model.takes != "edge_index" or "torch_geometric" not in sys.modules:  # whose import takes 65 MiB
        return []
    return layers(accelerate(model.module))
