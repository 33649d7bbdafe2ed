"""Trainers of one process: the application layer of the processor-accelerator protocol (HyScale-GNN, section III-C)."""
