"""HyScale-GNN's hybrid training on simulated platforms: `python -m benchmarks.hybrid`."""
