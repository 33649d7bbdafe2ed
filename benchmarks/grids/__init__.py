"""Measured grids: many configurations of few graphs, from which graphs are emulated."""
