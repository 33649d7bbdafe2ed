"""`InputRows`: `x` of a mini-batch whose input layer reads a table of full aggregates (`input_aggregation` full)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from a3gnn.errors import UsageError
from a3gnn.features.row_table import Aggregator

#: Functions that return facts about a tensor and none of its values; `__get__` is the name of every property.
_FACTS = frozenset(
    {"__get__", "__len__", "data_ptr", "dim", "get_device", "is_contiguous", "is_floating_point", "is_pinned"}
    | {"is_shared", "ndimension", "nelement", "numel", "size", "storage_offset", "stride"}
)
#: Functions that return the tensor itself if it already is what they make of it.
_SAME = frozenset({"contiguous", "cpu", "detach", "float", "requires_grad_", "to"})


class InputRows(Tensor):
    """Rows of a table in place of features; only an accelerated first layer reads them, by `read`.

    Any other use of its values raises an error, because they are not features.

    Attributes:
        rows: The table's rows, float32 or bfloat16, shape (num_nodes, input_width).
        aggregator: The table's aggregation.
        edge_index: The sampled edges of the further layers.
    """

    rows: Tensor
    aggregator: Aggregator
    edge_index: Tensor

    @classmethod
    def of(cls, rows: Tensor, aggregator: Aggregator, edge_index: Tensor) -> InputRows:
        """Returns `rows` with the shape of the features."""
        own = rows.shape[1] // 2 if aggregator == "mean" else 0
        made = rows[:, own:].as_subclass(cls)
        made.rows, made.aggregator, made.edge_index = rows, aggregator, edge_index
        return made

    def read(self, aggregator: Aggregator | None, edge_index: Any) -> Tensor:
        """Returns `rows` for an input layer with `aggregator` over `edge_index`.

        Raises:
            UsageError: The table has another aggregation, or the mini-batch other edges.
        """
        if aggregator != self.aggregator:
            raise UsageError(
                f"input_aggregation full needs a first layer that reads the tuned table of {self.aggregator}, got "
                f"{'one that reads none' if aggregator is None else aggregator}; tune with this model, or use sampled"
            )
        if edge_index is not self.edge_index:
            raise UsageError(
                "input_aggregation full needs the mini-batch's own edge_index in the first layer, got another one; "
                "use sampled"
            )
        return self.rows

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Returns facts about the tensor, and refuses everything that reads or writes its values."""
        name = getattr(func, "__name__", str(func))
        if name in _FACTS or name in _SAME:
            with torch._C.DisableTorchFunctionSubclass():
                found = func(*args, **(kwargs or {}))
                if not isinstance(found, Tensor):
                    return found
                if name in _SAME and found.data_ptr() == args[0].data_ptr() and found.dtype == args[0].dtype:
                    return args[0]
        raise UsageError(
            f"input_aggregation full needs an accelerated first layer that reads x, got {name} of x; call apply of the "
            "tuned result first, tune with this model, or use sampled"
        )

    def __repr__(self) -> str:  # type: ignore[override]
        return f"{type(self).__name__}({self.aggregator}, shape={tuple(self.shape)})"
