"""Cores for each stage of the pipeline by a measured model (BGL, section 3.4): profile, fit, solve, pin."""
