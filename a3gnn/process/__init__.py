"""Runs functions in separate processes, under a timeout and a memory limit."""
