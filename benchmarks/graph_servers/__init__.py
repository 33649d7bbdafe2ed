"""Sampling from a graph whose parts lie on servers of their own."""
