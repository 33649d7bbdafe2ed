"""Prepares mini-batches: samples, gathers and sends them to a device, in turn with training or ahead of it."""
