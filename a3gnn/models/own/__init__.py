"""A user's model: its factory, calls, cost and source files."""
