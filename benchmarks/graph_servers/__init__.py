"""Sampling from a graph whose parts are on servers of their own."""
