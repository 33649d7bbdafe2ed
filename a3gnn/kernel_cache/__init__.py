"""Kernel_cache."""
