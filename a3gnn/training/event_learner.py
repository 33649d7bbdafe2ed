"""`EventLearner`: the learner of links with times, whose encoder may read the ages of edges."""

from __future__ import annotations

from typing import Any

from a3gnn.evaluation.event_evaluator import EventEvaluator
from a3gnn.models.own.ages import edge_ages, with_ages
from a3gnn.models.own.inputs import Inputs
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.training.link_learner import LinkLearner


class EventLearner(LinkLearner):
    """A `LinkLearner` for mini-batches in which each link sees earlier edges alone."""

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
