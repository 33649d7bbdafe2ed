"""Conversion of a source that may be larger than memory to a folder that opens by memory map."""
