"""Partitioners: METIS, random, BGL's blocks."""
