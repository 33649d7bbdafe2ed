"""Accelerators that can be simulated by name: those of HyScale-GNN's Table II."""

from __future__ import annotations

from a3gnn.hybrid.simulation.platform import SimulatedAccelerator

#: The table's peak performance and memory bandwidth, links of 16 GB/s; launches and flushes are guesses.
U250 = SimulatedAccelerator(0.6e12, 77e9, 64e9, 16e9, launch_s=5e-5, samples_beside=True, pipelined=True, flush_s=5e-5)
A5000 = SimulatedAccelerator(27.8e12, 768e9, 24e9, 16e9, launch_s=1e-5)
ACCELERATORS = {"u250": U250, "a5000": A5000}
