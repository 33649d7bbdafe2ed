"""Trains the learned acquisition, and compares it with the baseline and other rules."""
