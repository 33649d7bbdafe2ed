"""Loader."""
