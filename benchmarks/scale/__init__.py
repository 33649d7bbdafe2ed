"""Graphs of any size by Graph500's recipe, for tests and measurements at sizes that no file of this project has."""
