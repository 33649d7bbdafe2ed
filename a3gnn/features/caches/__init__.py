"""Caches of rows in faster memory: sets fixed before training, and policies that replace rows at every read."""
