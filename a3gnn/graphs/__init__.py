"""Graphs: read, validate, describe, partition and generate them."""
