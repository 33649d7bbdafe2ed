"""`BatchModel`: a built-in model for a training loop of one's own, in one process or in several.

model = BatchModel(task, graph.num_features, graph.num_classes)     # DistributedDataParallel(model), fully_shard(model)
for batch in loader.minibatches():                                  # Loader(..., share=(rank, ranks))
    loss = functional.cross_entropy(model(batch), batch.y) * batch.seed_share * ranks
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from a3gnn.errors import ConfigError, UsageError
from a3gnn.models.batch_blocks import blocks_of
from a3gnn.models.model import build_model
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.ranks.joined_step import has_batch_norms
from a3gnn.seeding import derive
from a3gnn.task import Task

if TYPE_CHECKING:
    from a3gnn.ranks.shared_norm import Statistics


class BatchModel(nn.Module):
    """A built-in model whose input are a3gnn's own mini-batches, with the weights that the task's seed decides.

    In a process of several, whose process group must be there before it is made, it takes shares of mini-batches: what
    it answers for its seeds is what it would answer in the whole mini-batch, as is the gradient. Batch norms add their
    sums over the process group, so that all its processes call the model equally often (docs/distributed.md). Running
    statistics are updated by each call in training, as torch's are.

    Wrappers go around it as a whole; FSDP may shard each of `model.convs` for itself as well.

    Args:
        task: What model: layers, widths, norms, dropout, seed.
        in_channels: Columns of the features.
        out_channels: Columns of the outputs: classes or labels, 1 where values are predicted.
        dtype: Of activations, float32 or bfloat16, beside weights of float32; or float64, for weights of it.

    Attributes:
        model: The model itself, whose state dict is that of model.pt (`SavedModel`).

    Raises:
        ConfigError: The task is of a model of the user's.
    """

    def __init__(self, task: Task, in_channels: int, out_channels: int, *, dtype: torch.dtype = torch.float32) -> None:
        if task.is_own:
            raise ConfigError(f"model must be a built-in one, got {task.model}; one of your own is a module already")
        super().__init__()
        self.model = build_model(task, in_channels, out_channels)
        self._in_channels, self._seed, self._dtype = in_channels, task.seed, dtype
        self._statistics = _statistics(self.model)
        for layer in self.model.layers:
            layer.register_forward_pre_hook(self._own_input)

    def forward(self, batch: MiniBatch) -> Tensor:
        """Returns the outputs of the seeds of `batch`, shape (num_seeds, out_channels), float32, or float64 as asked.

        Args:
            batch: What `Loader.minibatches` yields; what is dropped is decided by the seed, its epoch and its index.

        Raises:
            UsageError: Its features are of another width; or statistics of the whole mini-batch are needed, and
                others' rows are not to be had.
        """
        if self.training:
            self._prepare(batch)
        seed = derive(self._seed, "dropout", batch.epoch, batch.index)
        _check_dtype(batch.x, torch.float32)
        if batch.x.shape[1] != self._in_channels:
            raise UsageError(
                f"mini-batches must have the model's {self._in_channels} features, got {batch.x.shape[1]}; give the "
                "Loader a Graph, such as Graph.from_pyg(data)"
            )
        blocks = blocks_of(batch, with_degrees=self.model.needs_degrees)
        # Sparse features are float32 beside bfloat16.
        keeps = batch.x.is_sparse_csr and self._dtype is torch.bfloat16
        x = batch.x if keeps else batch.x.to(self._dtype)
        out: Tensor = self.model(x, blocks, seed=seed, dtype=self._dtype)
        if self.training and self._statistics is not None:
            self._statistics.keep()
        return out

    def _prepare(self, batch: MiniBatch) -> None:
        """Says whose rows count here in the statistics of the whole mini-batch."""
        share = batch.subgraph.share
        if self._statistics is not None:
            if share is None:
                raise UsageError(
                    "mini-batches must be shares where several processes train a model with batch norms, got a whole "
                    "one; give the Loader share=(rank, ranks)"
                )
            self._statistics.owned = torch.from_numpy(share.owned).to(batch.x.device)
        elif share is not None and share.num_seeds < share.whole.num_seeds and has_batch_norms(self.model):
            raise UsageError(
                "batch norms need the rows of all shares, got a share and a model that was made without a process "
                "group; make it after torch.distributed.init_process_group"
            )

    def _own_input(self, layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Gives a layer, which overwrites its input, one of its own where a wrapper passes a view of another's.

        FSDP hands inputs on through a function of its own, whose outputs autograd lets nobody overwrite.
        """
        block, x, *others = inputs
        if not x.is_sparse_csr:
            _check_dtype(x, self._dtype)
        return (block, x.clone(), *others) if x._is_view() and x.requires_grad else None


def _statistics(model: nn.Module) -> Statistics | None:
    """Returns what the batch norms of `model` share with those of the process group; None without either."""
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
    """Does nothing where `x` is of `dtype`.

    Raises:
        UsageError: It isn't, as FSDP casts inputs, degrees among them, to the dtype of a mixed precision.
    """
    if x.dtype is not dtype:
        raise UsageError(
            f"inputs must be {dtype}, got {x.dtype}; leave out FSDP's MixedPrecisionPolicy, and give "
            "BatchModel(..., dtype=torch.bfloat16) for activations and products of 16 bits"
        )
