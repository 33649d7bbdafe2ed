"""Training, checkpoints and results."""
