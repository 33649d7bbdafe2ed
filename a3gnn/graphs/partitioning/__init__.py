"""Partitioners (METIS, random, BGL's blocks) and the quality of their parts."""
