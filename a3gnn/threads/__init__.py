"""Cores for threads, their division among stages, and the time that other work takes from them."""
