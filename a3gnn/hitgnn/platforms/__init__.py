"""Accelerators that need not be available: their metadata, and the resources and speed of kernel designs (HitGNN)."""
