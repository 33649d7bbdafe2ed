"""A graph and a machine as the numbers that the search's policy sees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.setting import Setting

#: Centre and scale of each feature: (log10 of the value - centre) / scale. Guesses, and fixed, so that a policy can be
#: used on graphs and machines that it was not trained on.
_LOG_FEATURES: dict[str, tuple[float, float]] = {
    "num_nodes": (4.5, 1.0),
    "mean_degree": (1.0, 0.5),
    "max_degree": (3.0, 1.0),
    "row_bytes": (2.8, 0.6),
    "num_train": (4.0, 1.0),
    "num_classes": (1.0, 0.5),
}


def context_features(setting: Setting) -> NDArray[np.float32]:
    """Returns the graph and the machine of `setting` scaled to about [-3, 3], float32, shape (n_features,)."""
    graph, hardware = setting.graph, setting.hardware
    logs = [(np.log10(max(getattr(graph, name), 1)) - mid) / scale for name, (mid, scale) in _LOG_FEATURES.items()]
    limits = hardware.profile
    machine = [
        np.log2(hardware.num_cores) - 2,
        np.log10(limits.copy_bytes_per_s) - 10,
        np.log10(limits.gemm_flops_per_s) - 11,
        float(hardware.has_device),
    ]
    shape = [
        graph.degree_gini - 0.5,
        graph.homophily - 0.5,
        float(graph.sparse_features),
        graph.cached_mass(graph.feature_bytes / 10) - 0.3,
    ]
    return np.array([*logs, *shape, *machine], dtype=np.float32)
