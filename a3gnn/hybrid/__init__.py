"""Hybrid training: processors and accelerators train one model together, and work follows what is measured."""
