"""The performance model (HyScale-GNN, section V): seconds of an iteration before anything runs."""
