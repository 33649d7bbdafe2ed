"""Assigns blocks to parts by BGL's greedy heuristic."""
