"""Chooses the configurations to measure next, or to recommend without a trial."""
