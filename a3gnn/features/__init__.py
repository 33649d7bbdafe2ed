"""The tiered feature store and its caches: whatever the tier, the same bytes."""
