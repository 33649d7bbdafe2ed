"""What users call to apply a configuration to a graph: `train` and `predict`."""
