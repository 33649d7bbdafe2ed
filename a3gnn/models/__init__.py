"""Layers with their kernels, built-in models, losses and the optimizer; users' models are in own/."""
