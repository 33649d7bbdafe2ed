"""Functions in processes of their own, under a timeout and a memory limit."""
