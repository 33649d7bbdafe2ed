"""Measured grids: many configurations of few graphs, on which rules of acquisition are replayed."""
