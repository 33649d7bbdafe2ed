"""Partitioners: METIS and BGL's blocks."""
