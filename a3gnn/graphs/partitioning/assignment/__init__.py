"""Blocks to parts: BGL's greedy heuristic."""
