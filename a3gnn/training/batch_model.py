"""`BatchModel`: a built-in model for a user's own training loop, in one process or in several.

model = BatchModel(task, graph.num_features, graph.num_classes)     # DistributedDataParallel(model), fully_shard(model)
for batch in loader.minibatches():                                  # Loader(..., share=(rank, ranks))
    loss = functional.cross_entropy(model(batch), batch.y) * batch.seed_share * ranks
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from a3gnn.errors import ConfigError, UsageError
from a3gnn.features.row_table import input_width
from a3gnn.models.batch_blocks import blocks_of
from a3gnn.models.model import build_model
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.ranks.joined_step import has_batch_norms
from a3gnn.seeding import derive
from a3gnn.task import Task

if TYPE_CHECKING:
    from a3gnn.ranks.shared_norm import Statistics


class BatchModel(nn.Module):
    """A built-in model that takes a3gnn's own mini-batches; the task's seed determines its initial weights.

    With several processes, it takes shares of mini-batches, and the process group must exist before the model is made.
    A share's seeds have the same outputs and gradients as in the whole mini-batch. Batch norms sum over the process
    group, so all its processes must call the model equally often (docs/reference/distributed.md). Each call in training
    updates the running statistics, as in torch.

    Wrap the model as a whole; FSDP may also shard each of `model.convs` separately.

    Args:
        task: Determines layers, widths, norms, dropout and seed.
        in_channels: Columns of the features.
        out_channels: Columns of the outputs: classes or labels, or 1 to predict values.
        dtype: Dtype of activations: float32 or bfloat16 with float32 weights, or float64 with float64 weights.

    Attributes:
        model: The inner model; its state dict is the content of model.pt (`SavedModel`).

    Raises:
        ConfigError: The task has a user's model.
    """

    def __init__(self, task: Task, in_channels: int, out_channels: int, *, dtype: torch.dtype = torch.float32) -> None:
        if task.is_own:
            raise ConfigError(f"model must be a built-in one, got {task.model}; your own model is already a module")
        if task.edge_dim:
            raise ConfigError(
                f"edge_dim must be 0, because mini-batches of Loader.minibatches have no values of edges, got "
                f"{task.edge_dim}; use task = dataclasses.replace(task, edge_dim=0)"
            )
        super().__init__()
        self.model = build_model(task, in_channels, out_channels)
        self._in_channels, self._seed, self._dtype = in_channels, task.seed, dtype
        self._statistics = _statistics(self.model)
        for layer in self.model.layers:
            layer.register_forward_pre_hook(self._own_input)

    def forward(self, batch: MiniBatch) -> Tensor:
        """Returns the outputs of the seeds, shape (num_seeds, out_channels), float32, or float64 if `dtype` is.

        Args:
            batch: A mini-batch of `Loader.minibatches`. Dropout depends on the task's seed and the mini-batch's epoch
                and index.

        Raises:
            UsageError: The features have another width or are aggregates for another model, or a batch norm needs other
                shares' rows and can't get them.
        """
        if self.training:
            self._prepare(batch)
        seed = derive(self._seed, "dropout", batch.epoch, batch.index)
        aggregator = batch.aggregator
        if aggregator is None:
            _check_dtype(batch.x, torch.float32)
        elif aggregator != self.model.aggregator or self.model.needs_degrees:
            raise UsageError(
                f"input_aggregation full needs a model that reads the table of {aggregator} and no degrees, which "
                "mini-batches lack, such as sage or gin; use sampled"
            )
        if batch.x.shape[1] != input_width(aggregator, self._in_channels):
            raise UsageError(
                f"mini-batches must have the model's {self._in_channels} features, got {batch.x.shape[1]}; give the "
                "Loader a Graph, such as Graph.from_pyg(data)"
            )
        blocks = blocks_of(batch, with_degrees=self.model.needs_degrees)
        # With bfloat16, sparse features stay float32.
        keeps = batch.x.is_sparse_csr and self._dtype is torch.bfloat16
        x = batch.x if keeps else batch.x.to(self._dtype)
        out: Tensor = self.model(x, blocks, aggregated=aggregator is not None, seed=seed, dtype=self._dtype)
        if self.training and self._statistics is not None:
            self._statistics.keep()
        return out

    def _prepare(self, batch: MiniBatch) -> None:
        """Sets which rows of this share count in the statistics of the whole mini-batch."""
        share = batch.subgraph.share
        if self._statistics is not None:
            if share is None:
                raise UsageError(
                    "mini-batches must be shares if several processes train a model with batch norms, got a whole "
                    "one; give the Loader share=(rank, ranks)"
                )
            self._statistics.owned = torch.from_numpy(share.owned).to(batch.x.device)
        elif share is not None and share.num_seeds < share.whole.num_seeds and has_batch_norms(self.model):
            raise UsageError(
                "batch norms need the rows of all shares, got a share and a model without a process group; build "
                "the model after torch.distributed.init_process_group"
            )

    def _own_input(self, layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Clones a layer's input if a wrapper passes a view, because layers overwrite their input.

        FSDP passes inputs through an autograd function, whose outputs must not be overwritten.
        """
        block, x, *others = inputs
        if not x.is_sparse_csr:
            _check_dtype(x, self._dtype)
        return (block, x.clone(), *others) if x._is_view() and x.requires_grad else None


def _statistics(model: nn.Module) -> Statistics | None:
    """Returns the statistics that batch norms share over the process group; None without norms or other processes."""
    from torch import distributed

    there = distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
    if not there or not has_batch_norms(model):
        return None
    from a3gnn.ranks.group import GroupPeers
    from a3gnn.ranks.shared_norm import Statistics

    made = Statistics(GroupPeers(distributed.get_rank()))
    made.join(model)
    return made


def _check_dtype(x: Tensor, dtype: torch.dtype) -> None:
    """Checks that `x` has `dtype`.

    Raises:
        UsageError: It hasn't: FSDP's mixed precision casts inputs, including degrees.
    """
    if x.dtype is not dtype:
        raise UsageError(
            f"inputs must be {dtype}, got {x.dtype}. Leave out FSDP's MixedPrecisionPolicy, and use BatchModel(..., "
            "dtype=torch.bfloat16) for 16-bit activations and products"
        )
