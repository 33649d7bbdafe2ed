"""`TunedDataModule`: a tuned configuration's mini-batches for Lightning's Trainer; needs the extra `lightning`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3gnn._imports import optional
from a3gnn.errors import UsageError
from a3gnn.graphs.as_graph import as_graph, is_data
from a3gnn.loader.loader import Loader
from a3gnn.training.tuned import TunedConfig

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike

_pytorch = optional("lightning.pytorch", "lightning", "A DataModule")


class TunedDataModule(_pytorch.LightningDataModule):  # type: ignore[misc, name-defined]
    """Provides Lightning's Trainer with a tuned configuration's mini-batches, each a PyG `Data`.

    The first `batch.batch_size` nodes are the seeds. Training uses the configuration and the task's seed. Validation,
    test and prediction use only its batch size: they sample `eval_neighbors` in-neighbors per node, uniformly.
    `module.tuned.apply(model, optimizer)` applies the knobs of the model and the optimizer.

    Examples:
        >>> module = TunedDataModule("runs/mine/tuned.json", data)
        >>> lightning.Trainer(max_epochs=20).fit(model, module)

    Args:
        config: A tuned configuration, or the path of its tuned.json or its folder.
        data: A graph, a PyG `Data` with train_mask, val_mask and test_mask, or an argument of `Graph.load`; by default
            the graph of the tune.
        num_neighbors: In-neighbors sampled per node, the seeds' hop first; by default the task's. In training, fanouts
            of the configuration override it.
        eval_neighbors: The same for validation, test and prediction; by default the task's. -1 takes all.
        others: Arguments of `Loader` for all loaders, such as adjs, num_workers and device.

    Raises:
        MissingDependencyError: Lightning is not installed; raised when this module is imported.
        UsageError: An argument is invalid, or a mask is missing.
        ConfigError: The tuned.json is missing, broken or foreign.
        GraphError: The graph can't be read.
    """

    def __init__(
        self,
        config: TunedConfig | str | Path,
        data: GraphLike | None = None,
        *,
        num_neighbors: Sequence[int] | None = None,
        eval_neighbors: Sequence[int] | None = None,
        **others: Any,  # many of Loader's arguments are PyG's, of any type, and Loader checks them
    ) -> None:
        super().__init__()
        self.tuned = config if isinstance(config, TunedConfig) else TunedConfig.read(config)
        given = self.tuned.spec if data is None else data
        self.data: Any = given if is_data(given) else as_graph(given)
        task = self.tuned.task
        self._train: dict[str, Any] = {
            "num_neighbors": list(num_neighbors or task.fanouts),
            "config": self.tuned,
            "seed": task.seed,
        }
        batch_size = self.tuned.config.batch_size
        self._evaluate: dict[str, Any] = {
            "num_neighbors": list(eval_neighbors or task.fanouts),
            "batch_size": batch_size,
        }
        self._others = others

    def train_dataloader(self) -> Loader:
        """Returns the loader of the train nodes, shuffled anew for every epoch."""
        return Loader(self.data, input_nodes=self._seeds("train"), shuffle=True, **self._train, **self._others)

    def val_dataloader(self) -> Loader:
        """Returns the loader of the validation nodes, in order."""
        return Loader(self.data, input_nodes=self._seeds("val"), **self._evaluate, **self._others)

    def test_dataloader(self) -> Loader:
        """Returns the loader of the test nodes, in order."""
        return Loader(self.data, input_nodes=self._seeds("test"), **self._evaluate, **self._others)

    def predict_dataloader(self) -> Loader:
        """Returns the loader of all nodes, in order."""
        return Loader(self.data, **self._evaluate, **self._others)

    def _seeds(self, split: str) -> Any:
        """Returns the nodes of a split: ids of a graph, the mask of a `Data`."""
        if not is_data(self.data):
            return getattr(self.data, f"{split}_ids")
        mask = getattr(self.data, f"{split}_mask", None)
        if mask is None:
            has = ", ".join(self.data.keys())
            raise UsageError(f"data must have {split}_mask, got {has}; set data.{split}_mask, a bool per node")
        return mask
