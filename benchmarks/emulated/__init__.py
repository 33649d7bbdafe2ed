"""Tunes on graphs that are emulated from measured grids."""
