"""Mini-batches: sampled, gathered, sent to a device, in turn or ahead of training."""
