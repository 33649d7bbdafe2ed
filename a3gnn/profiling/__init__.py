"""Trials in processes of their own, what they use, and where their results are kept."""
