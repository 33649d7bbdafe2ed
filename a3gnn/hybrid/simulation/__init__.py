"""A simulated platform on a virtual clock; it imports nothing of the performance model."""
