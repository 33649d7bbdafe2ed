"""This machine: its hardware, and a probe that measures it."""
