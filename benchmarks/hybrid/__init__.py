"""HyScale-GNN's results in shape, on simulated platforms: `python -m benchmarks.hybrid`."""
