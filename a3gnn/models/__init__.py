"""Layers with their kernels, built-in models, losses, the optimiser; models of the user's in own/."""
