"""What algorithms would reach on a platform: an epoch gone through without training, and HitGNN's model."""
