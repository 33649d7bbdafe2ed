"""A3GNN's Table II rebuilt: PyG, the default, and what tunes by each priority choose."""
