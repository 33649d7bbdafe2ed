"""Hitgnn."""
