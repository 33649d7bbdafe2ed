"""Evaluates a model on nodes with their whole in-neighbourhoods, chunk by chunk."""
