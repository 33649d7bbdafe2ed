"""The version of this a3gnn."""

__version__ = "0.1.0"
