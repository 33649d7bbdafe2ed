"""Searchers: choose the configurations to predict next, to find the front under the limits with few predictions."""
