"""Graphs by parts: cut, served by graph servers, sampled and read from where they lie."""
