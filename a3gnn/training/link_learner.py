"""`LinkLearner`: the learner of links: an encoder that is trained as users' models are, and a decoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from a3gnn.evaluation.link_evaluator import LinkEvaluator
from a3gnn.models.links import LinkModel
from a3gnn.models.own.inputs import Inputs
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.training.own_learner import Own

#: Passes over the rows of a mini-batch's nodes by the embedding, the decoder and the optimizer. Guess.
_ROW_PASSES = 12


class LinkLearner(Own):
    """A `Learner` for a `LinkModel`; its arguments and errors are those of `Own`."""

    _evaluator_kind = LinkEvaluator

    def cost(self, subgraph: Subgraph) -> float:
        """Returns the cost of training on `subgraph`, in bytes moved."""
        rows = subgraph.num_seeds * self._task.hidden_channels
        return super().cost(subgraph) + 4.0 * _ROW_PASSES * rows

    def heuristics(self) -> dict[str, float]:
        """Returns the qualities on test links of scores without a model, by name."""
        evaluator = self._evaluator
        assert isinstance(evaluator, LinkEvaluator)
        return evaluator.heuristics()

    def _outputs(self, inputs: Inputs, batch: MiniBatch) -> Any:
        """Returns the encoder's rows by type."""
        return self._own.module(*inputs)

    def _loss_of(self, outputs: Any, batch: MiniBatch) -> Tensor:
        module, types, links = self._own.module, self._graph.types, self._graph.links
        assert isinstance(module, LinkModel)
        assert types is not None
        assert links is not None
        assert batch.typed is not None
        assert batch.examples is not None
        rows = []
        for are_tails, kind in enumerate(links.ends):
            place = types.schema.types.index(kind)
            count = int(batch.typed.view.num_sampled_nodes[place, 0])
            ids = torch.from_numpy(batch.typed.view.n_id[place][:count]).to(self._device)
            rows.append(module.rows(outputs[kind][:count], ids, are_tails=bool(are_tails)))
        return module.loss(rows[0], rows[1], batch.examples.to(self._device))
