"""Synchronous training algorithms: a partitioner, a feature-storing strategy and an exchange (HitGNN)."""
