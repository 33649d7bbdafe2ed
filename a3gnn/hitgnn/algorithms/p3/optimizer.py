"""`SplitOptimizer`: the optimiser of a split model, whose saved state is that of the whole model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from a3gnn.hitgnn.algorithms.p3.model import SplitModel
from a3gnn.models.adam import Optimizer


class SplitOptimizer:
    """Updates this rank's weights, and has the state of all ranks' as of when it was last gathered.

    Args:
        inner: Adam over the weights of `split.model`, in their order.
        split: The model.
    """

    def __init__(self, inner: Optimizer, split: SplitModel) -> None:
        self._inner, self._split = inner, split
        self._state = inner.state_dict()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Of the optimiser within."""
        return self._inner.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self._inner.param_groups = groups

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients."""
        self._inner.zero_grad(set_to_none)

    def step(self) -> None:
        """Updates every weight that has a gradient."""
        self._inner.step()

    def gather(self) -> None:
        """Has `state_dict` return the state of now; every rank calls it."""
        self._state = self._mapped(self._inner.state_dict(), self._split.whole)

    def state_dict(self) -> dict[str, Any]:
        """Returns the whole model's state as of the last `gather`, or as it was loaded."""
        return self._state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Sets the state of a whole model, of which this rank takes its columns."""
        first, end = self._split.columns
        self._inner.load_state_dict(self._mapped(state_dict, lambda whole: whole[:, first:end]))
        self._state = state_dict

    def _mapped(self, state: dict[str, Any], mapping: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        """Returns `state` with `mapping` applied to the moments of weights that are split."""
        split = {id(weight) for weight in self._split.split_weights}
        numbers = [i for i, weight in enumerate(self._split.model.parameters()) if id(weight) in split]

        moments = {
            number: {
                name: mapping(value) if number in numbers and value.ndim == 2 else value
                for name, value in sorted(own.items())
            }
            for number, own in sorted(state["state"].items())
        }
        return {**state, "state": moments}
