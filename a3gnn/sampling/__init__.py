"""Locality-aware neighbour sampling: node ids only, no features and no torch."""
