"""Compiled kernels over edges and rows, for built-in and for accelerated layers."""
