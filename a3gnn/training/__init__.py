"""Models, training, evaluation, checkpoints."""
