"""`SavedModel`: the content of model.pt: weights, and a description of their model.

The file is a plain state dict for `torch.load` and for `load_state_dict` of PyG's modules. a3gnn's additions are in
`_metadata`, where torch stores data of a state dict that are not weights.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, get_args

import torch
from torch import Tensor

from a3gnn.checks import OneOf
from a3gnn.errors import A3GNNError, ConfigError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.types import GraphTypes
from a3gnn.metric import Target
from a3gnn.task import Task
from a3gnn.training.checkpoint import known_history, save, why_unreadable

#: a3gnn's key in `_metadata`; other keys are modules' names.
_PLACE = "a3gnn"


@dataclass(frozen=True, slots=True, eq=False)
class SavedModel:
    """A trained model.

    Attributes:
        task: The trained task; for a user's model it contains the description (`own`).
        target: The kind of outputs: classes, labels or values.
        num_features: Columns of the features.
        num_outputs: Columns of the outputs.
        weights: The model's state dict.
        types: The node types and relations of the training; None without types.
    """

    task: Task
    target: Target
    num_features: int
    num_outputs: int
    weights: Mapping[str, Tensor]
    types: GraphTypes | None = None

    @property
    def predicts(self) -> str:
        """What the model predicts, as text: `classes`, `links`, `values of edges`."""
        if self.types is None or not self.types.has_links or self.target == "links":
            return self.target
        return "values of edges"

    @classmethod
    def of(cls, model: torch.nn.Module, task: Task, graph: Graph) -> Self:
        """Returns `model` of a task that was trained on `graph`; shares its weights without copying."""
        types = None if graph.types is None else graph.types.for_model
        return cls(task, graph.target, graph.num_features, graph.num_classes, model.state_dict(), types)

    def write(self, path: Path) -> None:
        """Writes model.pt to `path`, atomically.

        Raises:
            A3GNNError: The file can't be written.
        """
        known = {
            "task": self.task.to_dict(),
            "target": self.target,
            "num_features": self.num_features,
            "num_outputs": self.num_outputs,
            **({} if self.types is None else {"types": self.types.to_dict()}),
        }
        state = OrderedDict(self.weights)
        state._metadata = {**getattr(self.weights, "_metadata", {}), _PLACE: known}  # type: ignore[attr-defined]
        save(path, state)

    @classmethod
    def read(cls, path: Any) -> Self:
        """Returns the content of the model.pt at `path`, or in the folder `path`.

        Raises:
            UsageError: `path` is no path.
            ConfigError: The file is missing, broken, or does not describe its model.
        """
        if not isinstance(path, str | Path):
            raise UsageError(f"model must be the path of a model.pt, or of the folder of a training, got {path!r}")
        file = Path(path) / "model.pt" if Path(path).is_dir() else Path(path)
        try:
            state = torch.load(file, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            raise ConfigError(f"{file} does not exist; a3gnn train --out DIR writes one") from None
        except Exception as error:  # reading a foreign file can raise any error
            raise ConfigError(
                f"{file} must be a model.pt that a3gnn train wrote, but can't be read: {why_unreadable(error)}; give "
                "the folder of a training, or its model.pt"
            ) from error
        known = getattr(state, "_metadata", {}).get(_PLACE)
        if known is None:
            raise ConfigError(
                f"{file} must describe its model, but another program or an older version wrote it without a "
                "description. For an older run, a3gnn train with its --config, --out and --resume writes the file "
                "again"
            )
        try:
            OneOf(get_args(Target)).check("target", known["target"])
            sizes = int(known["num_features"]), int(known["num_outputs"])
            types = GraphTypes.from_dict(known["types"]) if "types" in known else None
            task = known_history(state, types is not None and types.has_times) | known["task"]
            return cls(Task.from_dict(task), known["target"], *sizes, state, types)
        except (KeyError, TypeError, ValueError, AttributeError, A3GNNError) as error:
            raise ConfigError(f"{file} must be a model.pt of this version: {error}; train again") from error
