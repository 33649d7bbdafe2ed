"""The quality of a model on nodes with their whole in-neighbourhoods, a chunk after the other."""
