"""Evaluates a model on nodes with their whole in-neighborhoods, chunk by chunk."""
