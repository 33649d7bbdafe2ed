"""`BuiltIn`: the learner of the built-in models."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.config import TrainConfig
from a3gnn.evaluation.evaluate import Evaluator, edges_of
from a3gnn.evaluation.inference import Scratch
from a3gnn.evaluation.input_table import in_degrees, input_table
from a3gnn.graphs.graph import Graph
from a3gnn.models.adam import Optimizer, make_adam
from a3gnn.models.batch_blocks import blocks_of
from a3gnn.models.layers.aggregation import aggregated, warm_up
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.layer import LayerShapes
from a3gnn.models.loss import loss_of, loss_weight
from a3gnn.models.model import Model, build_model
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.ranks.joined_step import has_batch_norms
from a3gnn.ranks.peers import Ranks
from a3gnn.sampling.subgraph import Share, Subgraph
from a3gnn.sampling.whole import LayerRows
from a3gnn.seeding import derive
from a3gnn.task import Task


class BuiltIn:
    """A `Learner` for a built-in model, evaluated layer by layer from all in-neighbors.

    Args:
        graph: Provides features, labels and splits.
        config: Its `compute_dtype` and `input_aggregation` are used.
        task: Model, loss, seed and hyperparameters.
        device: Where the model is.
        scratch: Where evaluation writes files.
        on_chunk: Called before each chunk of nodes that is evaluated; an exception that it raises ends the evaluation.
        ranks: Ranks that share the evaluation; None evaluates alone.

    Attributes:
        logits: Computes the seeds' logits from a mini-batch, its blocks and the seed for dropout. Ranks may replace it
            by a function that they compute together.
        evaluated: The model that is evaluated: `model`, or a whole model set by ranks that each train a part of it.

    Raises:
        ConfigError: `input_aggregation` is full, and the model has no table for it or the table is too large; or the
            loss does not fit the labels.
        GraphError: The table is damaged, or can't be written; or the graph lacks values of edges that the task reads.
    """

    evaluation = "all in-neighbors, layer by layer"

    def __init__(
        self,
        graph: Graph,
        config: TrainConfig,
        task: Task,
        *,
        device: torch.device,
        scratch: Scratch,
        on_chunk: Callable[[], None],
        ranks: Ranks | None = None,
    ) -> None:
        self._graph, self._task, self._ranks = graph, task, ranks
        self._device, self._scratch, self._on_chunk = device, scratch, on_chunk
        self._loss = loss_of(graph, task, device)
        self.model = self.fresh_model()
        self.evaluated = self.model
        edges_of(graph, task)  # raises an error now if the graph lacks what the model reads
        self.edge_values = task.edge_values
        self.aggregator = None if self.edge_values else self.model.aggregator
        full = config.canonical().input_aggregation == "full"
        self.table = input_table(graph, self.model, task, config, on_chunk) if full else None
        self.rows = None if self.table is None else self.table.rows
        self.dtype: torch.dtype = getattr(torch, config.compute_dtype)
        self._blocks: list[LayerBlock] | None = None  # of the whole graph, which stay the same
        #: In place of the model's own; a bound method here would keep the learner, and its memory, in a cycle.
        self.logits: Callable[[MiniBatch, list[LayerBlock], int], Tensor] | None = None
        if self.dtype is torch.bfloat16 and self.aggregator is not None:
            warm_up(self.aggregator)

    def restart(self) -> None:
        """Resets the model to its initial weights, which the seed decides."""
        self.evaluated.load_state_dict(self.fresh_model().state_dict())

    def fresh_model(self) -> Model:
        """Returns a new model on the same device with the initial weights, which the seed decides."""
        sparse, sizes = self._graph.features.is_sparse, (self._graph.num_features, self._graph.num_classes)
        return build_model(self._task, *sizes, sparse=sparse).to(self._device)

    def fresh_optimizer(self) -> Optimizer:
        """Returns Adam with an empty state."""
        return make_adam(self.model.parameters(), self._task.learning_rate, self._task.weight_decay)

    def set_rate(self, optimizer: Optimizer, rate: float, batch: int, batches_per_epoch: int) -> None:
        """Sets Adam's step size to `rate`."""
        for group in optimizer.param_groups:
            group["lr"] = rate

    def loss(self, batch: MiniBatch) -> Tensor:
        """Returns the seeds' mean loss; dropout is drawn from the mini-batch's own seed.

        For a share, returns its part of the whole mini-batch's mean loss: the parts of all shares add up to the mean.
        """
        if batch.kept:
            blocks = self._whole_blocks(batch)
        else:
            whole = self.table.degrees if self.table else None
            blocks = blocks_of(batch, with_degrees=self.model.needs_degrees, whole=whole)
        seed = derive(self._task.seed, "dropout", batch.epoch, batch.index)
        logits, share = (self.logits or self._logits)(batch, blocks, seed), batch.subgraph.share
        loss = self._loss(logits[: len(batch.y)] if batch.kept else logits, batch.y)
        return loss if share is None else loss * self._part(share)

    @property
    def layer_rows(self) -> LayerRows:
        """The nodes that layers compute if the whole graph is the mini-batch, so that it equals full-batch training.

        Batch norms normalize over all nodes, and the weights of edges count in the degrees of all nodes.
        """
        if has_batch_norms(self.model.layers[-1]):
            return "all"
        return "hidden" if has_batch_norms(self.model) or self.edge_values else "needed"

    def _whole_blocks(self, batch: MiniBatch) -> list[LayerBlock]:
        """Returns the blocks of the whole graph; the first call replaces dense features by their aggregates.

        Layers that compute the same nodes share a block, and so what it derives from its edges.
        """
        if self._blocks is None:
            whole = in_degrees(self._graph) if self.model.needs_degrees and self.layer_rows == "needed" else None
            found = blocks_of(batch, with_degrees=self.model.needs_degrees, whole=whole)
            made = {(block.num_src, block.num_dst): block for block in found}
            self._blocks = [made[block.num_src, block.num_dst] for block in found]
            if self.aggregator is not None and not batch.x.is_sparse_csr:
                batch.x, batch.aggregator = aggregated(self.aggregator, self._blocks[0], batch.x), self.aggregator
        return self._blocks

    def _logits(self, batch: MiniBatch, blocks: list[LayerBlock], seed: int) -> Tensor:
        aggregated = batch.aggregator is not None
        logits: Tensor = self.model(batch.x, blocks, aggregated=aggregated, seed=seed, dtype=self.dtype)
        return logits

    @cached_property
    def _weight(self) -> Callable[[NDArray[Any]], float]:
        return loss_weight(self._graph, self._task)  # lazy, because only shares need it

    def _part(self, share: Share) -> float:
        """Returns the weight of a share's mean loss in the whole mini-batch's; 0 for a share without seeds."""
        n_id, labels = share.whole.n_id[: share.whole.num_seeds], np.asarray(self._graph.labels)
        own = n_id[share.places[: share.num_seeds]]
        return self._weight(labels[own]) / self._weight(labels[n_id]) if share.num_seeds else 0.0

    def cost(self, subgraph: Subgraph) -> float:
        """Returns the cost of training on `subgraph` in bytes moved, without sampling and the optimizer."""
        sparse = self._graph.features.is_sparse
        tabled, total, rows = len(self.model.layers) - subgraph.num_layers, 0.0, subgraph.num_nodes
        if tabled:  # the input layer reads a table
            total += self.evaluated.cost(0, LayerShapes(rows, rows, 0, sparse, True, False))
        for place in range(subgraph.num_layers):
            block, i = subgraph.block(place), place + tabled
            work = LayerShapes(block.num_src, block.num_dst, len(block.indices), sparse and not i, True, i > 0)
            total += self.evaluated.cost(i, work)
        return total

    @property
    def validation_cost(self) -> float:
        """The cost of `validate` in bytes moved, counted like the layers' costs."""
        return self._evaluator.cost(self.evaluated)

    def validate(self) -> float:
        """Returns the quality on validation nodes, from all neighbors in the whole graph."""
        return self._evaluator.validate(self.evaluated)

    def test(self) -> float:
        """Returns the quality on test nodes, from all neighbors in the whole graph."""
        return self._evaluator.test(self.evaluated)

    def rehearse_test(self) -> bool:
        """Takes the memory of `test`, by a sample of very many test nodes; returns False and does nothing for fewer."""
        return self._evaluator.rehearse_test(self.evaluated)

    def check(self) -> None:
        """Does nothing, because this version of the package contains the model's sources."""

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(
            self._graph,
            self._task,
            aggregator=self.aggregator,
            scratch=self._scratch,
            device=self._device,
            on_chunk=self._on_chunk,
            ranks=self._ranks,
        )
