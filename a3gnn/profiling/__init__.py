"""Trials in processes of their own, their executors, and the store of their results."""
