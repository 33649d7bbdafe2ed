"""Partitioned graphs: cut, served by graph servers, sampled and read over the network."""
