"""Locality-aware neighbor sampling: node ids only, no features and no torch."""
