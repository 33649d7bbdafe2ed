"""Expectations of configurations: the surrogate's predictions, combined with measurements."""
