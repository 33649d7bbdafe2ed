"""A converted graph folder as peers read it: plain .npy files, loaded into RAM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class GraphFolder:
    """The arrays of one graph, each in memory of its own.

    Attributes:
        indptr: In-neighbors as CSR, int64, shape (num_nodes + 1,).
        indices: int32, shape (num_edges,).
        features: float32, shape (num_nodes, num_features).
        labels: int64, shape (num_nodes,).
        train_ids: int64, shape (num_train,).
        num_classes: Classes.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    train_ids: NDArray[np.int64]
    num_classes: int

    @classmethod
    def read(cls, folder: str) -> GraphFolder:
        """Returns the graph in `folder`; features in half precision are widened, as the libraries' layers need them.

        Sparse features are made dense, which the libraries' loaders need.
        """
        path = Path(folder)
        arrays: dict[str, NDArray[Any]] = {
            name: np.load(path / f"{name}.npy") for name in ("indptr", "indices", "labels", "train_ids")
        }
        arrays["x"] = np.load(path / "x.npy") if (path / "x.npy").exists() else _dense(path)
        classes = json.loads((path / "meta.json").read_text(encoding="utf-8"))["num_classes"]
        return cls(
            indptr=arrays["indptr"],
            indices=arrays["indices"],
            features=arrays["x"].astype(np.float32, copy=False),
            labels=arrays["labels"],
            train_ids=arrays["train_ids"].astype(np.int64),
            num_classes=int(classes),
        )

    @property
    def shape(self) -> dict[str, int]:
        """Nodes, edges and features, as a worker reports them."""
        return {"nodes": len(self.indptr) - 1, "edges": len(self.indices), "features": self.features.shape[1]}

    def hottest(self, share: float) -> NDArray[np.bool_]:
        """Returns which nodes a cache of `share` of all nodes holds, the most often named in-neighbors first."""
        nodes = len(self.indptr) - 1
        entries = np.zeros(nodes, dtype=np.int64)
        for start in range(0, len(self.indices), 1 << 24):  # bincount widens its input
            entries += np.bincount(self.indices[start : start + (1 << 24)], minlength=nodes)
        cached = np.zeros(nodes, dtype=np.bool_)
        cached[np.argsort(-entries, kind="stable")[: max(1, round(share * nodes))]] = True
        return cached


def _dense(path: Path) -> NDArray[np.float32]:
    """Returns the CSR features in `path` as a matrix, float32, shape (num_nodes, num_features)."""
    pointers, columns, values, shape = (
        np.load(path / f"x_{name}.npy") for name in ("indptr", "indices", "data", "shape")
    )
    dense = np.zeros(tuple(shape), dtype=np.float32)
    dense[np.repeat(np.arange(len(dense)), np.diff(pointers)), columns] = values
    return dense
