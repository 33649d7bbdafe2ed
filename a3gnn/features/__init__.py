"""The feature store in tiers, and its caches: all tiers return the same bytes."""
