"""Tuning: measure, predict, search, verify, choose."""
