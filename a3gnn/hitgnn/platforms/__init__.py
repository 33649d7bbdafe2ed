"""Accelerators that need not be here: their metadata, what a design of kernels takes and reaches on them (HitGNN)."""
