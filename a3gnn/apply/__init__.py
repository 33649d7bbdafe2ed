"""The functions that apply a configuration to a graph: `train` and `predict`."""
