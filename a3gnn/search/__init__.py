"""Searchers: what to evaluate next, so that the front under the limits is found with few predictions."""
