"""`LinkLearner` and its kinds: an encoder that is trained as users' models are, and a decoder of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from a3gnn.evaluation.event_evaluator import EventEvaluator
from a3gnn.evaluation.link_evaluator import EdgeEvaluator, LinkEvaluator
from a3gnn.models.decoders import taken
from a3gnn.models.links import LinkModel
from a3gnn.models.loss import Loss, loss_of
from a3gnn.models.own.ages import edge_ages, with_ages
from a3gnn.models.own.inputs import Inputs
from a3gnn.models.own.user_model import called
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.training.own_learner import Own

#: Passes over the rows of a mini-batch's nodes by the embedding, the decoder and the optimizer. Guess.
_ROW_PASSES = 12


class LinkLearner(Own):
    """A `Learner` for a `LinkModel`; see `Own` for its arguments and errors."""

    _evaluator_kind = LinkEvaluator

    def cost(self, subgraph: Subgraph) -> float:
        """Returns the cost of training on `subgraph`, in bytes moved."""
        rows = subgraph.num_seeds * self._task.hidden_channels
        return super().cost(subgraph) + 4.0 * _ROW_PASSES * rows

    def _outputs(self, inputs: Inputs, batch: MiniBatch) -> Any:
        """Returns the encoder's rows by type."""
        return called(self._own.module, *inputs)

    def _loss_of(self, outputs: Any, batch: MiniBatch) -> Tensor:
        """Returns the mean loss of the pairs."""
        assert batch.examples is not None
        heads, tails = self._rows(outputs, batch)
        return self._module.loss(heads, tails, batch.examples.to(self._device))

    @property
    def _module(self) -> LinkModel:
        assert isinstance(self._own.module, LinkModel)
        return self._own.module

    def _rows(self, outputs: Any, batch: MiniBatch) -> list[Tensor]:
        """Returns the rows that the decoder takes of the seeds at both ends."""
        module, types, links = self._module, self._graph.types, self._graph.links
        assert types is not None
        assert links is not None
        assert batch.typed is not None
        assert batch.examples is not None
        past: Sequence[Tensor | None] = [one.to(self._device) for one in batch.examples.nodes] or (None, None)
        rows = []
        for are_tails, kind in enumerate(links.ends):
            place = types.schema.types.index(kind)
            count = int(batch.typed.view.num_sampled_nodes[place, 0])
            ids = torch.from_numpy(batch.typed.view.n_id[place][:count]).to(self._device)
            rows.append(module.rows(outputs[kind][:count], ids, are_tails=bool(are_tails), past=past[are_tails]))
        return rows


class EdgeLearner(LinkLearner):
    """A `Learner` for a `LinkModel` that predicts values of edges; otherwise as `LinkLearner`."""

    _evaluator_kind = EdgeEvaluator

    @cached_property
    def _value_loss(self) -> Loss:
        return loss_of(self._graph, self._task, self._device)

    def _loss_of(self, outputs: Any, batch: MiniBatch) -> Tensor:
        """Returns the mean loss of the edges."""
        assert batch.examples is not None
        heads, tails = self._rows(outputs, batch)
        examples = batch.examples.to(self._device)
        found = self._module.outputs(taken(heads, examples.heads), taken(tails, examples.tails))
        return self._value_loss(found, batch.y.to(self._device))


class EventLearner(LinkLearner):
    """A `LinkLearner` for mini-batches in which each link sees earlier edges alone; its encoder may read their ages."""

    _evaluator_kind = EventEvaluator

    def _outputs(self, inputs: Inputs, batch: MiniBatch) -> Any:
        """Returns the encoder's rows by type."""
        types = self._graph.types
        assert types is not None
        assert types.times is not None
        assert batch.typed is not None
        assert batch.examples is not None
        assert batch.examples.ranks is not None
        seen = types.times.distinct[batch.examples.ranks]
        ages = edge_ages(batch.typed.view, types.schema, types.times, seen)
        return super()._outputs(with_ages(inputs, self._module, ages).to(self._device), batch)
