"""Adapts the size of one trainer's cache to the free memory; also has the recorded controllers of several trainers."""
