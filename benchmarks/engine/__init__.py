"""The engine benchmark: a3gnn and its peers on the same work, in one run. `python -m benchmarks.engine --help`."""
