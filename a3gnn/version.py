"""The version of a3gnn."""

__version__ = "0.1.0"
